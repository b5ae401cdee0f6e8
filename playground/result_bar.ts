/** What can be done with a result, and how it was made. */

import { useEffect, useState } from "preact/hooks";
import { h, icon, type VNode } from "./elements.ts";
import { history, keyOf, toggleStar } from "./history.ts";
import { type Job, type Recipe, recipeAt, recipeOf, removeSoon, resultAt } from "./jobs.ts";
import type { LoraUse } from "./draft.ts";
import { lazy } from "./lazy.ts";
import { download, downloadArchive, fileName } from "./media.ts";
import { does, maxImages, type Model } from "./model.ts";
import {
  hasImageBefore,
  imageBefore,
  isRepeatable,
  modelOf,
  reuse,
  startFrom,
  vary,
} from "./request.ts";
import { sheetOf, sheets } from "./sheets.ts";
import { useStore } from "./store.ts";
import { duration, fieldName, t, valueText } from "./texts.ts";
import { attempt, show, tell, view } from "./view.ts";

const CopyAs = lazy(async () => (await import("./snippets.ts")).CopyAs);

export function ResultBar(
  { job, index, model }: { job: Job; index: number | null; model: Model | undefined },
): VNode {
  const [recipe, setRecipe] = useState<Recipe>();
  useEffect(() => {
    let isCurrent = true;
    recipeOf(job.id).then((found) => isCurrent && setRecipe(found), () => {});
    return () => void (isCurrent = false);
  }, [job.id]);
  const key = keyOf({ job, index: index ?? 0 });
  const isStarred = useStore(history, ({ stars }) => stars.includes(key));
  const result = index === null ? undefined : resultAt(job, index);
  const several = job.outputs && job.outputs.length > 1 ? job.outputs : undefined;
  const own = recipe && modelOf(recipe);
  const sheet = sheetOf(job.id);
  const isVideo = job.kind === "video";
  const hasFrames = result?.content_type.startsWith("video/");
  const canEdit = model && result && !isVideo && maxImages(model, "image") > 0;
  const canAnimate = model && result && !isVideo && maxImages(model, "video") > 0;
  const act = (icon_: Parameters<typeof icon>[0], text: string, work: () => Promise<unknown>) =>
    h("button", { class: "action", onClick: () => void attempt(work) }, [
      icon(icon_),
      h("span", {}, text),
    ]);
  return h(
    "figcaption",
    { class: "result-bar" },
    h(
      "div",
      { class: "actions" },
      model ? act("again", t("reuse"), () => reuseHere(job, index, recipe)) : null,
      own && isRepeatable(job, recipe)
        ? act(
          "vary",
          t("vary"),
          async () => show((await vary(own, job, recipeAt(recipe, job, index))).id),
        )
        : null,
      canEdit ? act("edit", t("edit"), () => begin(() => startFrom(job, result, "image"))) : null,
      canAnimate
        ? act("animate", t("animate"), () => begin(() => startFrom(job, result, "video")))
        : null,
      model && result && hasFrames && does(model, "V2V")
        ? act("edit", t("change"), () => begin(() => startFrom(job, result, "video")))
        : null,
      model && result && hasFrames && does(model, "F2V")
        ? act("animate", t("continue"), () => begin(() => startFrom(job, result, "video", true)))
        : null,
      index !== null && several
        ? act("grid", t("allOf", { count: several.length }), () => Promise.resolve(show(job.id)))
        : null,
      result && recipe && hasImageBefore(job)
        ? act("compare", t("before"), async () => {
          const before = await imageBefore(job);
          const { compareEdit } = await import("./compare.ts");
          if (before) await compareEdit(before, { job, result, index: index ?? 0 });
        })
        : null,
      index !== null && result
        ? act("download", t("download"), () => download(result, fileName(job, index)))
        : several
        ? act("download", t("downloadAll"), () => downloadArchive([job.id]))
        : null,
      sheet
        ? act("grid", t("sheet"), () => {
          sheets.set({ shown: sheet });
          return Promise.resolve(view.set({ hasSheet: true }));
        })
        : null,
      result
        ? h("button", {
          class: "action",
          "aria-pressed": isStarred,
          onClick: () => toggleStar(key),
        }, [icon("star"), h("span", {}, t("star"))])
        : null,
      h("button", {
        class: "action",
        onClick: () => {
          // Shown again where it comes back.
          show(job.id, index);
          removeSoon([several && index !== null ? key : job.id], tell);
        },
      }, [
        icon("remove"),
        h(
          "span",
          {},
          several && index === null ? t("deleteAll", { count: several.length }) : t("delete"),
        ),
      ]),
    ),
    h("p", { class: "prompt" }, result?.prompt ?? job.prompt),
    ...(job.cut_prompts ?? []).map(({ prompt, tokens, read, unread }) =>
      h(
        "p",
        { class: "notice", role: "status" },
        read === 0
          ? t("negativeUnread")
          : t("promptCut", { prompt: fieldName(prompt), tokens, read, unread }),
      )
    ),
    recipe
      ? recipeView(job, index ?? job.outputs?.[0]?.index ?? 0, recipeAt(recipe, job, index))
      : null,
  );
}

async function reuseHere(
  job: Job,
  index: number | null,
  recipe: Recipe | undefined,
): Promise<void> {
  await reuse(job, index);
  focusPrompt();
  if (!recipe) return;
  const notes = [
    ...modelOf(recipe) ? [] : [t("modelGone", { name: String(recipe["model"]) })],
    ...isRepeatable(job, recipe) ? [] : [t("inputsGone")],
  ];
  if (notes.length > 0) tell(notes.join(" "));
}

async function begin(work: () => Promise<unknown>): Promise<void> {
  await work();
  focusPrompt();
}

function focusPrompt(): void {
  const field = document.querySelector<HTMLTextAreaElement>("#prompt");
  field?.focus();
  field?.select();
}

const HIDDEN = ["prompt", "seed", "n", "loras", "output_format"];

function isTold(name: string, value: unknown): boolean {
  return !HIDDEN.includes(name) && !name.startsWith("input_") && value !== "";
}

function recipeView(job: Job, index: number, recipe: Recipe): VNode {
  const seed = resultAt(job, index)?.seed ?? recipe["seed"];
  const seconds = job.ended_at && job.started_at ? job.ended_at - job.started_at : 0;
  const loras = recipe["loras"] as LoraUse[];
  const short = [
    ...recipe["model"] === undefined ? [] : [String(recipe["model"])],
    ...loras.map(({ path }) => `+ ${path}`),
    String(recipe["size"]).replace("x", " × "),
    t("seedIs", { seed: String(seed) }),
    t("stepsAre", { count: Number(recipe["num_inference_steps"]) }),
    ...seconds > 0 ? [duration(seconds)] : [],
  ];
  const rows = [
    [t("seed"), seed],
    ...Object.entries(recipe).filter(([name, value]) => isTold(name, value))
      .map(([name, value]) => [fieldName(name), value]),
    ...loras.length > 0 ? [[t("loras"), loras]] : [],
  ];
  return h(
    "details",
    { class: "recipe" },
    h("summary", {}, short.join("  ·  ")),
    h(
      "div",
      { class: "recipe-box" },
      h(CopyAs, { job, recipe }),
      h(
        "dl",
        {},
        ...rows.flatMap(([name, value]) => [
          h("dt", {}, String(name)),
          h("dd", {}, valueText(value)),
        ]),
      ),
    ),
  );
}
