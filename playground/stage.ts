/** The middle of the page: the image or clip that is looked at, or on its way. */

import { useEffect, useState } from "preact/hooks";
import { h, type VNode } from "./elements.ts";
import {
  cancel,
  isPending,
  isSound,
  type Job,
  jobs,
  type Live,
  live,
  plays,
  type Result,
} from "./jobs.ts";
import { lazy } from "./lazy.ts";
import { useMedia } from "./media.ts";
import type { Model } from "./model.ts";
import { ResultBar } from "./result_bar.ts";
import { draft } from "./draft.ts";
import { useStore } from "./store.ts";
import { duration, plainly, t } from "./texts.ts";
import {
  attempt,
  enlarge,
  selectedIndex,
  selectedJob,
  selectedResult,
  show,
  view,
} from "./view.ts";

const MaskEditor = lazy(async () => (await import("./mask_editor.ts")).MaskEditor);
const OutpaintEditor = lazy(async () => (await import("./outpaint_editor.ts")).OutpaintEditor);
const Player = lazy(async () => (await import("./player.ts")).Player);

export function Stage({ model }: { model: Model | undefined }): VNode {
  const { list, isKnown } = useStore(jobs, (state) => state);
  const { editing } = useStore(view, (state) => state);
  const source = useStore(draft, ({ images }) => images[0]);
  const job = selectedJob(list);
  const content = editing && source && model
    ? editing === "mask"
      ? h(MaskEditor, { key: source.key, source })
      : h(OutpaintEditor, { key: source.key, source, model })
    : !job
    ? isKnown ? h(Welcome, { model }) : null
    : isPending(job)
    ? h(Working, { key: job.id, job })
    : job.status === "completed"
    ? h(Finished, { job, model })
    : h(Failed, { job, model });
  return h("section", { class: "stage", tabIndex: -1, "aria-label": t("image") }, content);
}

const EXAMPLES = ["exampleStar", "exampleHeart", "exampleCircle"] as const;

function Welcome({ model }: { model: Model | undefined }): VNode {
  const isToy = model?.native_sides !== undefined && model?.native_sides !== null;
  return h(
    "div",
    { class: "welcome" },
    h("p", { class: "lead" }, t("whatToSee")),
    h(
      "p",
      { class: "muted" },
      // Touch screens may have no keys.
      matchMedia("(pointer: coarse)").matches
        ? t("howToTouch", { generate: t("generate") })
        : t("howToBegin"),
    ),
    isToy
      ? h(
        "div",
        { class: "examples" },
        ...EXAMPLES.map((key) => t(key)).map((prompt) =>
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
        ? h("img", {
          class: "preview",
          src: now.preview,
          alt: t("preview", { prompt: job.prompt ?? "" }),
        })
        : null,
    ),
    h(
      "div",
      { class: "progress-row" },
      h("progress", {
        max: 100,
        "aria-label": t("progress"),
        ...(isLive && now.progress > 0 ? { value: now.progress } : {}),
      }),
      h("p", { class: "progress-text", role: "status" }, text),
      h("button", {
        class: "quiet",
        onClick: () => attempt(() => cancel(job.id)),
      }, t("cancel")),
    ),
  );
}

/** How long a stage may take before there is something to be said of it, in milliseconds. */
const LONG_MS = 4000;

/** `Step 3 of 8, 4 s left`. */
function progressText(now: Live | undefined, isLong: boolean): string {
  const hinted = (text: string) => isLong ? t("firstKernels", { text }) : text;
  if (now?.stage === "load") return t("loadingWeights");
  const steps = { step: now?.step ?? 0, steps: now?.total_steps ?? 0 };
  if (now?.stage === "compile") return t("compiling", steps);
  if (!now?.stage || now.stage === "encode") return hinted(t("readingPrompt"));
  if (now.stage === "decode") return t("decoding");
  if (now.step === 0 || now.total_steps === null) return hinted(t("starting"));
  return now.eta_s === null
    ? t("step", steps)
    : t("stepLeft", { ...steps, time: duration(now.eta_s) });
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
  if (place === null || place <= 1) return t("nextInQueue");
  return t("placeInQueue", { place, time: duration(place * secondsPerJob) });
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
      : isSound(result)
      ? h("audio", {
        key: `${job.id}${index}`,
        src: url,
        controls: true,
        "aria-label": job.prompt ?? t("aResult"),
      })
      : plays(result)
      ? h(Player, { key: `${job.id}${index}`, url, job, result, shape })
      : h(
        "button",
        {
          class: "frame enlarge",
          style: shape,
          title: t("lookCloser"),
          "aria-label": t("lookCloserAt", { prompt: job.prompt ?? t("aResult") }),
          onClick: () => enlarge(job.id, index),
        },
        h("img", {
          key: `${job.id}${index}`,
          class: isSmall ? "result small" : "result",
          src: url,
          alt: job.prompt ?? t("aResult"),
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
    ...results.map((result) => h(BatchItem, { key: result.url, job, result, index: result.index })),
  );
}

function BatchItem({ job, result, index }: { job: Job; result: Result; index: number }): VNode {
  const url = useMedia(result);
  return h(
    "button",
    { onClick: () => show(job.id, index) },
    plays(result)
      ? h("video", { src: url, muted: true, "aria-label": t("resultAt", { place: index + 1 }) })
      : h("img", { src: url, alt: t("resultAt", { place: index + 1 }) }),
  );
}

function Failed({ job, model }: { job: Job; model: Model | undefined }): VNode {
  const text = job.status === "cancelled"
    ? t("cancelled")
    : plainly(job.error?.message ?? t("failed"));
  return h(
    "figure",
    { class: "failed" },
    h("div", { class: "frame message" }, h("p", { role: "alert" }, text)),
    h(ResultBar, { key: job.id, job, index: 0, model }),
  );
}
