/** Sheets: two settings with lists of values, and an image for each pair of them. */

import { useEffect, useRef, useState } from "preact/hooks";
import { callJson, Refusal } from "./api.ts";
import { type Draft, draft, lorasFor } from "./draft.ts";
import { h, type VNode } from "./elements.ts";
import { cancel, isPending, type Job, jobs, live } from "./jobs.ts";
import { save, useMedia } from "./media.ts";
import type { Model } from "./model.ts";
import { send } from "./request.ts";
import { session } from "./session.ts";
import {
  type Axis,
  type AxisChoice,
  axisChoices,
  axisName,
  valuesOf,
  withValue,
} from "./sheet_axes.ts";
import { sheetImage } from "./sheet_image.ts";
import { keepSheet, type Sheet, sheets } from "./sheets.ts";
import { memory, Store, useStore } from "./store.ts";
import { duration, percent, plainly, t } from "./texts.ts";
import { attempt, show, view } from "./view.ts";

interface Current {
  isSending: boolean;
  problem: string;
  /** Jobs of the sheet that the list does not have any more; null for those that are gone. */
  older: Readonly<Record<string, Job | null>>;
}

const current: Store<Current> = new Store<Current>({ isSending: false, problem: "", older: {} });

const MAX_JOBS = 100;
/** How long the page waits where the server's queue is full, in milliseconds. */
const FULL_MS = 2000;

/** Which start is under way; another one, or a cancellation, ends it. */
let round = 0;

async function start(
  model: Model,
  axes: readonly [Axis, Axis],
  columns: readonly string[],
  rows: readonly string[],
): Promise<void> {
  const own = ++round;
  const seed = (draft.state.keepsSeed || draft.state.usesSeed ? draft.state.seed : null) ??
    Math.floor(Math.random() * 2 ** 32);
  const base: Draft = { ...draft.state, count: 1, keepsSeed: true, seed };
  let sheet: Sheet = { axes: [axes[0].id, axes[1].id], columns, rows, ids: [] };
  keepSheet(sheet);
  current.set({ isSending: true, problem: "" });
  try {
    for (const row of rows) {
      for (const column of columns) {
        const wanted = withValue(withValue(base, axes[0], columns, column), axes[1], rows, row);
        const id = axes[0].id === "model" ? column : axes[1].id === "model" ? row : model.id;
        const by = session.state.models.find((other) => other.id === id) ?? model;
        const loras = by.id === model.id ? wanted.loras : lorasFor(by.id);
        const job = await sendWhenFree(by, { ...wanted, loras }, () => own === round);
        if (!job) return;
        if (own !== round) return void cancel(job.id);
        const before = sheet;
        sheet = { ...sheet, ids: [...sheet.ids, job.id] };
        keepSheet(sheet, before);
      }
    }
  } catch (error) {
    current.set({ problem: error instanceof Error ? error.message : String(error) });
  } finally {
    if (own === round) current.set({ isSending: false });
  }
}

/** Sends a request, again and again while the queue is full; undefined once it is not wanted any more. */
async function sendWhenFree(
  model: Model,
  state: Draft,
  isWanted: () => boolean,
): Promise<Job | undefined> {
  while (isWanted()) {
    try {
      return await send(model, state);
    } catch (error) {
      if (!(error instanceof Refusal) || ![429, 503].includes(error.status)) throw error;
      await new Promise((resolve) => setTimeout(resolve, FULL_MS));
    }
  }
  return undefined;
}

async function cancelAll(): Promise<void> {
  round++;
  current.set({ isSending: false });
  const ids = sheets.state.shown?.ids ?? [];
  const pending = jobs.state.list.filter((job) => ids.includes(job.id) && isPending(job));
  // From the last one, so that none begins meanwhile.
  await Promise.all(pending.map(({ id }) => cancel(id)));
}

/** Reads the jobs of a sheet that are older than the list. */
async function readOlder({ ids }: Sheet): Promise<void> {
  for (const id of ids) {
    const isThere = jobs.state.list.some((job) => job.id === id) || id in current.state.older;
    if (isThere) continue;
    const job = await callJson<Job>(`v1/jobs/${id}`).catch((error) => {
      if (error instanceof Refusal && error.status === 404) return null;
      throw error;
    });
    current.set(({ older }) => ({ older: { ...older, [id]: job } }));
  }
}

const USUAL: readonly [Axis, Axis] = [
  { id: "num_inference_steps", text: "" },
  { id: "guidance_scale", text: "" },
];

export function SheetPanel({ model }: { model: Model }): VNode {
  const box = useRef<HTMLDialogElement>(null);
  const state = useStore(draft, (state) => state);
  const { isSending, problem, older } = useStore(current, (state) => state);
  const sheet = useStore(sheets, ({ shown }) => shown);
  const { list, secondsPerJob, isKnown } = useStore(jobs, (state) => state);
  const [axes, setAxes] = useState(memory.read<readonly [Axis, Axis]>("axes", USUAL));
  useEffect(() => box.current?.showModal(), []);
  useEffect(() => {
    if (sheet && isKnown) void attempt(() => readOlder(sheet));
  }, [sheet, isKnown]);
  const choices = axisChoices(model, state);
  const chosen = axes.map(({ id }, index) =>
    choices.find((choice) => choice.id === id) ?? choices[Math.min(index, choices.length - 1)]!
  );
  const known = axes.map((axis, index) => ({ ...axis, id: chosen[index]!.id })) as [Axis, Axis];
  const values = known.map((axis, index) =>
    // A sheet may have one row.
    index === 1 && axis.text.trim() === "" ? [""] : valuesOf(axis, chosen[index]!, state)
  );
  const change = (index: number, axis: Axis) => {
    const next = known.with(index, axis) as [Axis, Axis];
    memory.write("axes", next);
    setAxes(next);
  };
  const [columns, rows] = values;
  const count = Array.isArray(columns) && Array.isArray(rows) ? columns.length * rows.length : 0;
  const wrong = known[0].id === known[1].id && count > 0
    ? t("sheetSame")
    : values.find((value) => typeof value === "string") as string | undefined ??
      (count > MAX_JOBS ? t("sheetTooMany", { count, most: MAX_JOBS }) : undefined) ??
      (state.prompt.trim() === "" ? t("writePrompt") : undefined);
  const isTyped = known.some(({ text }) => text.trim() !== "");
  const ofSheet = sheet
    ? sheet.ids.map((id) => list.find((job) => job.id === id) ?? older[id])
    : [];
  const isRunning = isSending || ofSheet.some((job) => job && isPending(job));
  const isLast = sheet === undefined || sheet === sheets.state.list[0];
  const done = ofSheet.filter((job) => job?.status === "completed").length;
  const close = () => view.set({ hasSheet: false });
  return h(
    "dialog",
    { ref: box, class: "key-dialog sheet", "aria-labelledby": "sheet-title", onClose: close },
    h(
      "form",
      {
        onSubmit: (event) => {
          event.preventDefault();
          if (wrong || isRunning || !Array.isArray(columns) || !Array.isArray(rows)) return;
          void start(model, known, columns, rows);
        },
      },
      h(
        "div",
        { class: "models-top" },
        h("h2", { id: "sheet-title" }, t("sheet")),
        h("button", { class: "quiet", onClick: close }, t("close")),
      ),
      h("p", { class: "muted" }, t("sheetHow")),
      ...known.map((axis, index) =>
        h(AxisFields, {
          key: String(index),
          label: t(index === 0 ? "sheetColumns" : "sheetRows"),
          axis,
          choices,
          choice: chosen[index]!,
          onChange: (axis: Axis) => change(index, axis),
        })
      ),
      h(
        "p",
        { class: wrong && isTyped ? "notice" : "muted", role: "status" },
        problem || wrong ||
          t("sheetCount", { count, time: duration(count * secondsPerJob) }),
      ),
      h(
        "div",
        { class: "row" },
        h(
          "button",
          {
            type: "submit",
            class: "generate",
            disabled: wrong !== undefined,
            "aria-disabled": isRunning,
          },
          t("sheetStart"),
        ),
        isRunning
          ? h("button", { class: "quiet", onClick: () => void attempt(cancelAll) }, t("cancelAll"))
          : null,
        sheet && done > 0
          ? h("button", {
            class: "quiet",
            onClick: () =>
              void attempt(async () => save(await sheetImage(sheet, ofSheet), "denoise-sheet.png")),
          }, t("sheetDownload"))
          : null,
        sheet
          ? h("span", { role: "status" }, t("sheetDone", { done, count: gridSize(sheet) }))
          : null,
      ),
      sheet ? h(Grid, { sheet, list: ofSheet, isSending: isSending && isLast }) : null,
    ),
  );
}

function gridSize({ columns, rows }: Sheet): number {
  return columns.length * rows.length;
}

function AxisFields({ label, axis, choice, choices, onChange }: {
  label: string;
  axis: Axis;
  choice: AxisChoice;
  choices: readonly AxisChoice[];
  onChange: (axis: Axis) => void;
}): VNode {
  return h(
    "fieldset",
    { class: "axis" },
    h("legend", { class: "name" }, label),
    h(
      "select",
      {
        "aria-label": t("sheetSetting", { name: label }),
        value: choice.id,
        onChange: ({ currentTarget: { value } }) => onChange({ id: value, text: "" }),
      },
      ...choices.map(({ id, name }) => h("option", { key: id, value: id }, name)),
    ),
    h("input", {
      "aria-label": t("sheetValues", { name: label }),
      value: axis.text,
      placeholder: choice.example,
      autocomplete: "off",
      spellcheck: false,
      onInput: ({ currentTarget: { value } }) => onChange({ id: choice.id, text: value }),
    }),
    choice.choices.length > 0 ? h("p", { class: "hint" }, choice.choices.join(", ")) : null,
  );
}

/** Jobs of a sheet in their order; null for those that are gone. */
type SheetJobs = readonly (Job | null | undefined)[];

function Grid(
  { sheet, list, isSending }: { sheet: Sheet; list: SheetJobs; isSending: boolean },
): VNode {
  const { axes, columns, rows, ids } = sheet;
  const jobAt = (place: number) => {
    const isComing = isSending || place < ids.length;
    return list[place] ?? (isComing && list[place] !== null ? undefined : null);
  };
  return h(
    "div",
    { class: "sheet-grid", tabIndex: 0, role: "region", "aria-label": t("sheet") },
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("td", {}),
          ...columns.map((value) =>
            h("th", { key: value, scope: "col" }, h("small", {}, axisName(axes[0])), value)
          ),
        ),
      ),
      h(
        "tbody",
        {},
        ...rows.map((value, y) =>
          h(
            "tr",
            { key: value },
            value === ""
              ? h("td", {})
              : h("th", { scope: "row" }, h("small", {}, axisName(axes[1])), value),
            ...columns.map((column, x) =>
              h("td", { key: column }, h(Cell, { job: jobAt(y * columns.length + x) }))
            ),
          )
        ),
      ),
    ),
  );
}

function Cell({ job }: { job: SheetJobs[number] }): VNode {
  const url = useMedia(job?.outputs?.[0]);
  const progress = useStore(live, ({ id, progress }) => id === job?.id ? progress : 0);
  if (!job) return h("span", { class: "cell" }, job === null ? "–" : "…");
  if (job.status !== "completed") {
    const text = job.status === "failed"
      ? plainly(job.error?.message ?? t("failed"))
      : job.status === "cancelled"
      ? t("cancelled")
      : job.status === "in_progress"
      ? percent(progress / 100)
      : "…";
    return h("span", { class: "cell" }, text);
  }
  return h(
    "button",
    {
      class: "cell",
      "aria-label": t("lookCloserAt", { prompt: job.prompt ?? t("aResult") }),
      onClick: () => {
        view.set({ hasSheet: false });
        show(job.id, 0);
      },
    },
    url ? h("img", { src: url, alt: "" }) : null,
  );
}
