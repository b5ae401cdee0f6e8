/** What leads to other models: the button at the top, and a note where the bundled model draws. */

import { useEffect } from "preact/hooks";
import { host } from "./api.ts";
import { h, type VNode } from "./elements.ts";
import { lazy } from "./lazy.ts";
import { followPulls, isActive, models, openModels, shareOf } from "./models.ts";
import { session } from "./session.ts";
import { useStore } from "./store.ts";
import { parts, t } from "./texts.ts";

const Panel = lazy(async () => (await import("./models_panel.ts")).Panel);

/** The button at the top, which tells how far a download is. */
export function ModelsButton(): VNode | null {
  const { pulls, isOpen } = useStore(models, (state) => state);
  const isReady = useStore(session, ({ link }) => link === "ready");
  useEffect(() => {
    if (isReady && !host.current.Corner) void followPulls();
  }, [isReady]);
  if (host.current.Corner || !isReady && !isOpen) return null;
  const now = pulls.find(isActive);
  return h(
    "span",
    {},
    h(
      "button",
      { class: "quiet", onClick: openModels },
      now ? t("modelsShare", { share: shareOf(now) }) : t("models"),
    ),
    isOpen ? h(Panel, {}) : null,
  );
}

/** Said where a model that knows shapes alone draws. */
export function ToyNote(): VNode {
  const isInTab = host.current.Corner !== undefined;
  const [before, link, after] = parts("toyNote");
  return h(
    "p",
    { class: "toy muted" },
    ...isInTab
      ? [t("toyNoteTop")]
      : [before, h("button", { class: "link", onClick: openModels }, link), after],
  );
}
