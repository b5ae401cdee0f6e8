/** The panel where models are fetched, chosen and deleted. */

import { useEffect, useRef, useState } from "preact/hooks";
import { catchFocus } from "./controls.ts";
import { h, type VNode } from "./elements.ts";
import {
  type Catalogue,
  type Entry,
  isActive,
  models,
  nameOf,
  type Part,
  pause,
  type Pull,
  pull,
  removeModel,
} from "./models.ts";
import { chooseModel, session } from "./session.ts";
import { useStore } from "./store.ts";
import { duration, exactSeconds, parts, rate, sized, t } from "./texts.ts";

interface Row {
  id: string;
  title: string;
  entry?: Entry | undefined;
  part?: Part | undefined;
  pull?: Pull | undefined;
}

/** What is here or on its way, what fits, and the rest. */
function rowsOf(catalogue: Catalogue, pulls: Pull[], served: string[]): [string, Row[]][] {
  const ofEntry = (entry: Entry): Row => ({
    ...{ id: entry.id, title: entry.title, entry },
    pull: pulls.findLast((pull) => nameOf(pull) === entry.id),
  });
  const known = catalogue.data.map(ofEntry);
  const families = catalogue.data.filter(({ state }) => state !== "absent").map((entry) =>
    entry.family
  );
  // Of the many that steer results, those for the models that are here.
  const isOffered = ({ automatic, state, families: wanted }: Part) =>
    automatic || state === "present" || wanted.some((family) => families.includes(family));
  const additions = catalogue.parts.filter(isOffered).map((part): Row => ({
    ...{ id: part.id, title: part.id, part },
    pull: pulls.findLast((pull) => nameOf(pull) === part.id),
  }));
  const ids = new Set([...known, ...additions].map(({ id }) => id));
  const others = new Set([
    ...served,
    ...pulls.filter(({ status }) => status !== "completed").map(nameOf),
  ]);
  const more = [...others].filter((id) => !ids.has(id))
    .map((id) => ({ id, title: id, pull: pulls.findLast((pull) => nameOf(pull) === id) }));
  const isHere = ({ entry, pull }: Row) => entry?.state !== "absent" || pull && isActive(pull);
  const [here, away] = [known.filter(isHere), known.filter((row) => !isHere(row))];
  return [
    [t("modelsHere"), [...here, ...more]],
    [
      t(
        catalogue.device_bytes === null
          ? "modelsToDownload"
          : catalogue.is_software
          ? "modelsFitMemory"
          : "modelsFit",
      ),
      away.filter(({ entry }) => entry?.fits !== false),
    ],
    [
      t("modelsLarger"),
      away.filter(({ entry }) => entry?.fits === false),
    ],
    [t("additions"), additions],
  ];
}

export function Panel(): VNode {
  const box = useRef<HTMLDialogElement>(null);
  const { catalogue, pulls, news, problem } = useStore(models, (state) => state);
  const served = useStore(session, (state) => state.models);
  const [other, setOther] = useState("");
  useEffect(() => {
    held = "";
    box.current?.showModal();
  }, []);
  const close = () => {
    models.set({ isOpen: false });
    // The link that opened it may be gone.
    catchFocus("#prompt");
  };
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
        h("h2", { id: "models-title" }, t("models")),
        h("button", { class: "quiet", onClick: close }, t("close")),
      ),
      h("p", { class: "muted" }, catalogue ? machineOf(catalogue) : t("looking")),
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
          h("label", { for: "other-model" }, t("otherModel")),
          h("input", {
            id: "other-model",
            value: other,
            placeholder: t("hubPlace"),
            autocomplete: "off",
            spellcheck: false,
            onInput: ({ currentTarget }) => setOther(currentTarget.value),
          }),
          h("button", { type: "submit", class: "quiet", disabled: !other.trim() }, t("downloadIt")),
        )
        : null,
    ),
  );
}

function machineOf(catalogue: Catalogue): string {
  const { device_bytes: device, free_bytes: free, can_pull: can, is_software } = catalogue;
  return [
    is_software ? t("softwareGpu") : "",
    device === null ? "" : t(is_software ? "modelsMayUse" : "gpuHas", { size: sized(device) }),
    free === null ? "" : t("diskHas", { size: sized(free) }),
    can ? "" : t("mayNotPull"),
  ].join(" ");
}

/** The row that has the focus, or had it when it went to another section. */
let held = "";

function ModelRow({ row, catalogue }: { row: Row; catalogue: Catalogue }): VNode {
  const { id, title, entry, part, pull: now } = row;
  const { models: served, modelId } = useStore(session, (state) => state);
  const [isSure, setSure] = useState(false);
  const own = useRef<HTMLLIElement>(null);
  useEffect(() => {
    // A button that went away, or with its row to another section, leaves the focus to nobody.
    const focused = document.activeElement;
    const isElsewhere = focused !== own.current && focused?.closest(".model-row, input");
    if (held !== id || isElsewhere || !own.current) return;
    (own.current.querySelector<HTMLElement>(".act:enabled") ?? own.current).focus();
  });
  const isOnItsWay = now !== undefined && isActive(now);
  const model = served.find((model) => model.id === id);
  const isServed = model !== undefined;
  const isPart = entry ? entry.state === "partial" : now?.status === "stopped";
  const problem = entry && entry.state !== "present" ? obstacle(entry, catalogue) : undefined;
  // One button for all, so that it keeps the focus.
  const [word, act] = isOnItsWay
    ? [t("pause"), () => pause(now)] as const
    : isServed
    ? [t(id === modelId ? "inUse" : "use"), () => chooseModel(id)] as const
    : (entry ?? part)?.state === "present"
    ? ["", () => {}] as const
    : [t(isPart ? "resume" : "download"), () => pull(now?.model ?? id)] as const;
  const isFetch = !isOnItsWay && !isServed && word !== "";
  const known = entry ?? part;
  // A folder of the user's own is no model of the hub.
  const isOfHub = /^[^/\\]+\/[^/\\]+$/.test(id);
  const canRemove = catalogue.can_pull && (known ? known.state !== "absent" : isOfHub);
  return h(
    "li",
    {
      class: "model-row",
      ref: own,
      tabIndex: -1,
      "aria-label": title,
      onFocusIn: () => held = id,
    },
    h(
      "div",
      {},
      h("b", {}, title),
      entry?.first_choice ? h("span", { class: "badge" }, t("firstChoice")) : null,
      entry ? h("p", {}, entry.good_for) : model?.native_sides ? h("p", {}, t("toyIs")) : null,
      entry ? h("p", { class: "muted" }, termsOf(entry)) : null,
      part
        ? h("p", {}, t(part.part), part.families.length ? `: ${part.families.join(", ")}` : "")
        : null,
      part
        ? h(
          "p",
          { class: "muted" },
          `${sizeOf(part.state, part.download_bytes)} · ${part.licence}`,
        )
        : null,
      problem ? h("p", { class: "muted" }, ...problem) : null,
      now?.status === "failed" ? h("p", { class: "notice" }, now.error?.message ?? "") : null,
      isOnItsWay
        ? h("progress", {
          max: Math.max(1, now.total_bytes),
          value: now.completed_bytes,
          "aria-label": t("downloadOf", { name: title }),
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
          class: isFetch && entry?.first_choice ? "act generate" : "act quiet",
          "aria-label": t("actOn", { act: word, name: title }),
          disabled: !isFetch && !isOnItsWay && id === modelId || isFetch && problem !== undefined,
          onClick: () => void act(),
        }, word)
        : null,
      canRemove || isOnItsWay
        ? h("button", {
          key: "remove",
          class: "quiet",
          "aria-label": t("actOn", {
            act: t(isOnItsWay ? "cancel" : isSure ? "reallyDelete" : "delete"),
            name: title,
          }),
          onBlur: () => setSure(false),
          onClick: () => {
            if (!isOnItsWay && !isSure) return setSure(true);
            setSure(false);
            void removeModel(id);
          },
        }, t(isOnItsWay ? "cancel" : isSure ? "reallyDeleteNow" : "delete"))
        : null,
    ),
  );
}

/** What is to come is known about. */
function sizeOf(state: Entry["state"], bytes: number): string {
  return state === "present" ? sized(bytes) : t("aboutSize", { size: sized(bytes) });
}

function termsOf(entry: Entry): string {
  const { state, makes, precision, licence, cached_bytes: here, download_bytes: all } = entry;
  return [
    t(makes === "videos" ? "makesVideos" : "makesImages"),
    `${precision.toUpperCase()}, ${sizeOf(state, state === "present" ? here : all)}`,
    licence.includes("non-commercial") || !entry.non_commercial
      ? licence
      : t("nonCommercial", { licence }),
    ...entry.measured
      ? [t("measured", { time: exactSeconds(entry.measured.seconds), size: entry.measured.size })]
      : [],
  ].join(" · ");
}

/** Why a model cannot be fetched. */
function obstacle(entry: Entry, { has_token: has, free_bytes: free }: Catalogue) {
  if (entry.gated && !has) {
    const [before, link, after] = parts("acceptTerms");
    return [
      before,
      h("a", { href: entry.url, target: "_blank", rel: "noreferrer" }, link),
      after,
    ];
  }
  const missing = entry.download_bytes - entry.cached_bytes;
  return free !== null && missing > free ? [t("noRoom")] : undefined;
}

function progressOf(pull: Pull): string {
  if (pull.status === "queued") return t("waitsForPull");
  const { completed_bytes: done, total_bytes: all, bytes_per_second: speed, eta_s: left } = pull;
  if (all === 0) return t("askingHub");
  return [
    t("bytesOf", { done: sized(done), all: sized(all) }),
    ...speed > 0 ? [rate(speed)] : [],
    ...left === null ? [] : [t("timeLeft", { time: duration(left) })],
  ].join(", ");
}
