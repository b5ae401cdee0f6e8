/** The panel where models are fetched, chosen and deleted. */

import { useEffect, useRef, useState } from "preact/hooks";
import { duration, sized } from "./amounts.ts";
import { host } from "./api.ts";
import { h, type VNode } from "./elements.ts";
import {
  type Catalogue,
  type Entry,
  followPulls,
  isActive,
  models,
  nameOf,
  openModels,
  pause,
  type Pull,
  pull,
  removeModel,
} from "./models.ts";
import { chooseModel, session } from "./session.ts";
import { useStore } from "./store.ts";

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
    h("button", { class: "quiet", onClick: openModels }, now ? `Models ${percent(now)}` : "Models"),
    isOpen ? h(Panel, {}) : null,
  );
}

/** Said where a model that knows shapes alone draws. */
export function ToyNote(): VNode {
  return h(
    "p",
    { class: "toy muted" },
    "The bundled model draws plain shapes, such as a red heart, and nothing else. For photos, ",
    host.current.Corner
      ? "choose a model at the top."
      : h("button", { class: "link", onClick: openModels }, "get a model"),
  );
}

function percent({ completed_bytes: done, total_bytes: all }: Pull): string {
  return `${Math.floor(100 * done / Math.max(1, all))} %`;
}

interface Row {
  id: string;
  title: string;
  entry?: Entry | undefined;
  pull?: Pull | undefined;
}

/** What is here or on its way, what fits, and the rest. */
function rowsOf(catalogue: Catalogue, pulls: Pull[], served: string[]): [string, Row[]][] {
  const ofEntry = (entry: Entry): Row => ({
    ...{ id: entry.id, title: entry.title, entry },
    pull: pulls.findLast((pull) => nameOf(pull) === entry.id),
  });
  const known = catalogue.data.map(ofEntry);
  const ids = new Set(known.map(({ id }) => id));
  const others = new Set([
    ...served,
    ...pulls.filter(({ status }) => status !== "completed").map(nameOf),
  ]);
  const more = [...others].filter((id) => !ids.has(id))
    .map((id) => ({ id, title: id, pull: pulls.findLast((pull) => nameOf(pull) === id) }));
  const isHere = ({ entry, pull }: Row) => entry?.state !== "absent" || pull && isActive(pull);
  const [here, away] = [known.filter(isHere), known.filter((row) => !isHere(row))];
  return [
    ["Here", [...here, ...more]],
    [
      catalogue.device_bytes === null ? "To download" : "Fit this GPU",
      away.filter(({ entry }) => entry?.fits !== false),
    ],
    [
      "Larger: parts of them wait in memory, which is slow",
      away.filter(({ entry }) => entry?.fits === false),
    ],
  ];
}

function Panel(): VNode {
  const box = useRef<HTMLDialogElement>(null);
  const { catalogue, pulls, news, problem } = useStore(models, (state) => state);
  const served = useStore(session, (state) => state.models);
  const [other, setOther] = useState("");
  useEffect(() => {
    held = "";
    box.current?.showModal();
  }, []);
  const close = () => models.set({ isOpen: false });
  const sections = catalogue ? rowsOf(catalogue, pulls, served.map(({ id }) => id)) : [];
  return h(
    "dialog",
    { ref: box, class: "key-dialog models", "aria-labelledby": "models-title", onClose: close },
    h(
      "form",
      {
        onSubmit: (event) => {
          event.preventDefault();
          if (other.trim()) void pull(other.trim()).then(() => setOther(""));
        },
      },
      h(
        "div",
        { class: "models-top" },
        h("h2", { id: "models-title" }, "Models"),
        h("button", { class: "quiet", onClick: close }, "Close"),
      ),
      h("p", { class: "muted" }, catalogue ? machineOf(catalogue) : "Looking."),
      h("p", { role: "status" }, news),
      h("p", { class: "notice", role: "alert" }, problem),
      ...sections.filter(([, rows]) => rows.length > 0).map(([title, rows]) =>
        h(
          "section",
          { key: title },
          h("h3", {}, title),
          h(
            "ul",
            {},
            ...rows.map((row) => h(ModelRow, { key: row.id, row, catalogue: catalogue! })),
          ),
        )
      ),
      catalogue?.can_pull
        ? h(
          "div",
          { class: "models-other" },
          h("label", { for: "other-model" }, "Another model of the hub"),
          h("input", {
            id: "other-model",
            value: other,
            placeholder: "org/name or org/name:file",
            autocomplete: "off",
            spellcheck: false,
            onInput: ({ currentTarget }) => setOther(currentTarget.value),
          }),
          h("button", { type: "submit", class: "quiet", disabled: !other.trim() }, "Download it"),
        )
        : null,
    ),
  );
}

function machineOf({ device_bytes: device, free_bytes: free, can_pull: can }: Catalogue): string {
  return [
    device === null ? "" : `The GPU has ${sized(device)}.`,
    free === null ? "" : `The disk has ${sized(free)} free.`,
    can ? "" : "This server lets nobody here fetch or delete models.",
  ].join(" ");
}

/** The row that has the focus, or had it when it went to another section. */
let held = "";

function ModelRow({ row, catalogue }: { row: Row; catalogue: Catalogue }): VNode {
  const { id, title, entry, pull: now } = row;
  const { models: served, modelId } = useStore(session, (state) => state);
  const [isSure, setSure] = useState(false);
  const own = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (held !== id || document.activeElement?.closest(".model-row")) return;
    own.current?.querySelector("button")?.focus();
  }, []);
  const isOnItsWay = now !== undefined && isActive(now);
  const isServed = served.some((model) => model.id === id);
  const isPart = entry ? entry.state === "partial" : now?.status === "stopped";
  const problem = entry && entry.state !== "present" ? obstacle(entry, catalogue) : undefined;
  // One button for all, so that it keeps the focus.
  const [word, act] = isOnItsWay
    ? ["Pause", () => pause(now)] as const
    : isServed
    ? [id === modelId ? "In use" : "Use", () => chooseModel(id)] as const
    : entry?.state === "present"
    ? ["", () => {}] as const
    : [isPart ? "Resume" : "Download", () => pull(now?.model ?? id)] as const;
  const isFetch = word === "Resume" || word === "Download";
  const canRemove = catalogue.can_pull && (entry ? entry.state !== "absent" : id.includes("/"));
  return h(
    "li",
    { class: "model-row", ref: own, onFocusIn: () => held = id },
    h(
      "div",
      {},
      h("b", {}, title),
      entry?.first_choice ? h("span", { class: "badge" }, "First choice") : null,
      entry ? h("p", {}, entry.good_for) : null,
      entry ? h("p", { class: "muted" }, termsOf(entry)) : null,
      problem ? h("p", { class: "muted" }, ...problem) : null,
      now?.status === "failed" ? h("p", { class: "notice" }, now.error?.message ?? "") : null,
      isOnItsWay
        ? h("progress", {
          max: Math.max(1, now.total_bytes),
          value: now.completed_bytes,
          "aria-label": `Download of ${title}`,
        })
        : null,
      isOnItsWay ? h("p", { class: "muted" }, progressOf(now)) : null,
    ),
    h(
      "div",
      { class: "model-acts" },
      word && (isServed || catalogue.can_pull)
        ? h("button", {
          key: "act",
          class: isFetch && entry?.first_choice ? "generate" : "quiet",
          "aria-label": `${word}: ${title}`,
          disabled: word === "In use" || isFetch && problem !== undefined,
          onClick: () => void act(),
        }, word)
        : null,
      canRemove || isOnItsWay
        ? h("button", {
          key: "remove",
          class: "quiet",
          "aria-label": `${isOnItsWay ? "Cancel" : isSure ? "Really delete" : "Delete"}: ${title}`,
          onBlur: () => setSure(false),
          onClick: () => {
            if (!isOnItsWay && !isSure) return setSure(true);
            setSure(false);
            void removeModel(id);
          },
        }, isOnItsWay ? "Cancel" : isSure ? "Really delete?" : "Delete")
        : null,
    ),
  );
}

function termsOf(entry: Entry): string {
  const { state, makes, precision, licence, cached_bytes: here, download_bytes: all } = entry;
  return [
    makes,
    `${precision.toUpperCase()}, ${state === "present" ? sized(here) : `about ${sized(all)}`}`,
    licence.includes("non-commercial") || !entry.non_commercial
      ? licence
      : `${licence}, non-commercial`,
  ].join(" · ");
}

/** Why a model cannot be fetched. */
function obstacle(entry: Entry, { has_token: has, free_bytes: free }: Catalogue) {
  if (entry.gated && !has) {
    const page = h("a", { href: entry.url, target: "_blank", rel: "noreferrer" }, "its page");
    return ["Accept its terms on ", page, ", and start the server with HF_TOKEN."];
  }
  const missing = entry.download_bytes - entry.cached_bytes;
  return free !== null && missing > free ? ["The disk has no room for it."] : undefined;
}

function progressOf(pull: Pull): string {
  if (pull.status === "queued") return "Waits for the one before";
  const { completed_bytes: done, total_bytes: all, bytes_per_second: rate, eta_s: left } = pull;
  if (all === 0) return "Asking the hub";
  return [
    `${sized(done)} of ${sized(all)}`,
    ...rate > 0 ? [`${(rate / 1e6).toFixed(1)} MB/s`] : [],
    ...left === null ? [] : [`${duration(left)} left`],
  ].join(", ");
}
