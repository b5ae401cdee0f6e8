/** The address of what is looked at: it can be kept, sent, and gone back to. */

import { Refusal } from "./api.ts";
import { jobs, readJob } from "./jobs.ts";
import { t } from "./texts.ts";
import { tell, view } from "./view.ts";

function addressOf({ id, index, isEnlarged }: typeof view.state): string {
  if (id === "") return "";
  return `#/r/${id}${index === null ? "" : `/${index + 1}`}${isEnlarged ? "/large" : ""}`;
}

/** Shows what the address names, now and when the user goes back; writes it when something else is shown. */
export function followAddress(): void {
  read();
  addEventListener("popstate", read);
  let { isEnlarged: wasEnlarged } = view.state;
  view.follow(() => {
    const address = addressOf(view.state);
    const isStep = wasEnlarged;
    wasEnlarged = view.state.isEnlarged;
    if (address === location.hash) return;
    // One step back leaves the large image, however many were seen.
    if (isStep) history.replaceState(null, "", address || location.pathname);
    else history.pushState(null, "", address || location.pathname);
  });
}

function read(): void {
  const [, id = "", place, large] = /^#\/r\/([\w-]+)(?:\/(\d+))?(\/large)?$/.exec(location.hash) ??
    [];
  const index = place === undefined ? null : Number(place) - 1;
  view.set({ id, index, isEnlarged: large !== undefined, editing: null });
  if (id && !jobs.state.list.some((job) => job.id === id)) {
    readJob(id).then(({ status }) => {
      // There is nothing to see of it.
      if (status === "cancelled" && view.state.id === id) view.set({ id: "", index: null });
    }, (error) => {
      if (error instanceof Refusal && error.status === 404) {
        tell(t("addressGone"));
      }
    });
  }
}
