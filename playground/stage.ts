/** The middle of the page: the image or clip that is looked at, or on its way. */

import { useEffect, useState } from "preact/hooks";
import { duration } from "./amounts.ts";
import { h, type VNode } from "./elements.ts";
import { cancel, isPending, type Job, jobs, type Live, live, type Result } from "./jobs.ts";
import { MaskEditor } from "./mask_editor.ts";
import { useMedia } from "./media.ts";
import type { Model } from "./model.ts";
import { Player } from "./player.ts";
import { ResultBar } from "./result_bar.ts";
import { draft } from "./draft.ts";
import { useStore } from "./store.ts";
import {
  attempt,
  enlarge,
  selectedIndex,
  selectedJob,
  selectedResult,
  show,
  view,
} from "./view.ts";

export function Stage({ model }: { model: Model | undefined }): VNode {
  const { list, isKnown } = useStore(jobs, (state) => state);
  const { isMasking } = useStore(view, (state) => state);
  const source = useStore(draft, ({ images }) => images[0]);
  const job = selectedJob(list);
  const content = isMasking && source
    ? h(MaskEditor, { key: source.key, source })
    : !job
    ? isKnown ? h(Welcome, { model }) : null
    : isPending(job)
    ? h(Working, { key: job.id, job })
    : job.status === "completed"
    ? h(Finished, { job, model })
    : h(Failed, { job, model });
  return h("section", { class: "stage", "aria-label": "Image" }, content);
}

const EXAMPLES = [
  "a yellow star on a blue background",
  "a red heart",
  "a green circle on a white background",
];

function Welcome({ model }: { model: Model | undefined }): VNode {
  const isToy = model?.native_sides !== undefined && model?.native_sides !== null;
  return h(
    "div",
    { class: "welcome" },
    h("p", { class: "lead" }, "What do you want to see?"),
    h("p", { class: "muted" }, "Write it below, then press Ctrl and Enter."),
    isToy
      ? h(
        "div",
        { class: "examples" },
        ...EXAMPLES.map((prompt) =>
          h("button", {
            key: prompt,
            class: "chip",
            onClick: () => draft.set({ prompt }),
          }, prompt)
        ),
      )
      : null,
  );
}

function Working({ job }: { job: Job }): VNode {
  const now = useStore(live, (state) => state);
  const isLive = now.id === job.id && job.status === "in_progress";
  const { secondsPerJob } = useStore(jobs, (state) => state);
  const isLong = useLong(`${job.status} ${now.stage} ${now.step}`);
  const [width = 1, height = 1] = job.size?.split("x").map(Number) ?? [];
  const text = isLive || job.status === "in_progress"
    ? progressText(isLive ? now : undefined, isLong)
    : waitingText(job, secondsPerJob);
  return h(
    "figure",
    { class: "working" },
    h(
      "div",
      {
        class: isLive && now.preview ? "frame" : "frame waiting",
        style: { aspectRatio: `${width} / ${height}`, "--shape": width / height },
      },
      isLive && now.preview
        ? h("img", { class: "preview", src: now.preview, alt: `Preview of: ${job.prompt}` })
        : null,
    ),
    h(
      "div",
      { class: "progress-row" },
      h("progress", {
        max: 100,
        "aria-label": "Progress",
        ...(isLive && now.progress > 0 ? { value: now.progress } : {}),
      }),
      h("p", { class: "progress-text", role: "status" }, text),
      h("button", {
        class: "quiet",
        onClick: () => attempt(() => cancel(job.id)),
      }, "Cancel"),
    ),
  );
}

/** How long a stage may take before there is something to be said of it, in milliseconds. */
const LONG_MS = 4000;

/** `Step 3 of 8, 4 s left`. */
function progressText(now: Live | undefined, isLong: boolean): string {
  const hint = isLong ? "; the first time, the GPU's kernels are compiled" : "";
  if (now?.stage === "load") return "Loading the model's weights";
  if (now?.stage === "compile") return `Compiling kernels, ${now.step} of ${now.total_steps}`;
  if (!now?.stage || now.stage === "encode") return `Reading the prompt${hint}`;
  if (now.stage === "decode") return "Decoding";
  const left = now.eta_s === null ? "" : `, ${duration(now.eta_s)} left`;
  return now.step === 0 || now.total_steps === null
    ? `Starting${hint}`
    : `Step ${now.step} of ${now.total_steps}${left}`;
}

function useLong(what: unknown): boolean {
  const [long, setLong] = useState<unknown>();
  useEffect(() => {
    const timer = setTimeout(() => setLong(what), LONG_MS);
    return () => clearTimeout(timer);
  }, [what]);
  return long === what;
}

function waitingText({ place }: Job, secondsPerJob: number): string {
  if (place === null || place <= 1) return "Next in the queue";
  return `Position ${place} in the queue, about ${duration(place * secondsPerJob)}`;
}

function Finished({ job, model }: { job: Job; model: Model | undefined }): VNode {
  useStore(view, (state) => state);
  const index = selectedIndex(job);
  const result = selectedResult(jobs.state.list);
  const url = useMedia(result);
  const [width = 1, height = 1] = job.size?.split("x").map(Number) ?? [];
  const shape = { aspectRatio: `${width} / ${height}`, "--shape": width / height };
  const isSmall = Math.max(width, height) <= 256;
  return h(
    "figure",
    { class: "finished" },
    index === null
      ? h(Batch, { job, results: job.outputs! })
      : !result || !url
      ? h("div", { class: "frame waiting", style: shape })
      : result.content_type.startsWith("video/")
      ? h(Player, { key: `${job.id}${index}`, url, job, shape })
      : h(
        "button",
        {
          class: "frame enlarge",
          style: shape,
          title: "Look closer",
          "aria-label": `Look closer: ${job.prompt ?? "a result"}`,
          onClick: () => enlarge(job.id, index),
        },
        h("img", {
          key: `${job.id}${index}`,
          class: isSmall ? "result small" : "result",
          src: url,
          alt: job.prompt ?? "A result",
        }),
      ),
    h(ResultBar, { key: job.id, job, index, model }),
  );
}

/** All results of a request, to choose one. */
function Batch({ job, results }: { job: Job; results: Result[] }): VNode {
  const columns = Math.ceil(Math.sqrt(results.length));
  return h(
    "div",
    { class: "batch", style: { "--columns": columns } },
    ...results.map((result, index) => h(BatchItem, { key: result.url, job, result, index })),
  );
}

function BatchItem({ job, result, index }: { job: Job; result: Result; index: number }): VNode {
  const url = useMedia(result);
  return h(
    "button",
    { onClick: () => show(job.id, index) },
    result.content_type.startsWith("video/")
      ? h("video", { src: url, muted: true, "aria-label": `Result ${index + 1}` })
      : h("img", { src: url, alt: `Result ${index + 1}` }),
  );
}

function Failed({ job, model }: { job: Job; model: Model | undefined }): VNode {
  const text = job.status === "cancelled"
    ? "Cancelled."
    : job.error?.message ?? "The request failed.";
  return h(
    "figure",
    { class: "failed" },
    h("div", { class: "frame message" }, h("p", { role: "alert" }, text)),
    h(ResultBar, { key: job.id, job, index: 0, model }),
  );
}
