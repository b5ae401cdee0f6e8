/** What can be done with a result, and how it was made. */

import { useEffect, useState } from "preact/hooks";
import { compareEdit } from "./compare.ts";
import { capital, words } from "./controls.ts";
import { h, icon, type VNode } from "./elements.ts";
import { history, keyOf, toggleStar } from "./history.ts";
import { type Job, type Recipe, recipeOf, removeSoon } from "./jobs.ts";
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
import { CopyAs } from "./snippets.ts";
import { useStore } from "./store.ts";
import { attempt, show, tell } from "./view.ts";

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
  const result = index === null ? undefined : job.outputs?.[index];
  const several = job.outputs && job.outputs.length > 1 ? job.outputs : undefined;
  const own = recipe && modelOf(recipe);
  const isVideo = job.kind === "video";
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
      model ? act("again", "Reuse", () => reuseHere(job, recipe)) : null,
      own && isRepeatable(job, recipe)
        ? act("vary", "Vary", async () => show((await vary(own, job, recipe)).id))
        : null,
      canEdit ? act("edit", "Edit", () => begin(() => startFrom(job, result, "image"))) : null,
      canAnimate
        ? act("animate", "Animate", () => begin(() => startFrom(job, result, "video")))
        : null,
      model && result && isVideo && does(model, "V2V")
        ? act("edit", "Change", () => begin(() => startFrom(job, result, "video")))
        : null,
      model && result && isVideo && does(model, "F2V")
        ? act("animate", "Continue", () => begin(() => startFrom(job, result, "video", true)))
        : null,
      index !== null && several
        ? act("grid", `All ${several.length}`, () => Promise.resolve(show(job.id)))
        : null,
      result && recipe && hasImageBefore(job)
        ? act("compare", "Before", async () => {
          const before = await imageBefore(job);
          if (before) await compareEdit(before, { job, result, index: index ?? 0 });
        })
        : null,
      index !== null && result
        ? act("download", "Download", () => download(result, fileName(job, index)))
        : several
        ? act("download", "Download all", () => downloadArchive([job.id]))
        : null,
      result
        ? h("button", {
          class: "action",
          "aria-pressed": isStarred,
          onClick: () => toggleStar(key),
        }, [icon("star"), h("span", {}, "Star")])
        : null,
      h("button", {
        class: "action",
        onClick: () => removeSoon([job.id], several?.length ?? 1, tell),
      }, [icon("remove"), h("span", {}, several ? `Delete all ${several.length}` : "Delete")]),
    ),
    h("p", { class: "prompt" }, job.prompt),
    ...(job.cut_prompts ?? []).map(({ prompt, tokens, read, unread }) =>
      h(
        "p",
        { class: "notice", role: "status" },
        read === 0
          ? "The negative prompt was not read: this request had no guidance."
          : `The ${
            prompt.replace("_", " ")
          } has ${tokens} tokens, and ${read} were read. Not read: “${unread}”`,
      )
    ),
    recipe ? recipeView(job, index ?? 0, recipe) : null,
  );
}

async function reuseHere(job: Job, recipe: Recipe | undefined): Promise<void> {
  await reuse(job);
  focusPrompt();
  if (!recipe) return;
  const notes = [
    ...modelOf(recipe)
      ? []
      : [`The model ${recipe["model"]} is not loaded; another model will draw.`],
    ...isRepeatable(job, recipe) ? [] : ["The inputs were not kept: add them again."],
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

/** Settings at the top of a recipe, with their usual names. */
const NAMES: Readonly<Record<string, string>> = {
  size: "Size",
  num_frames: "Frames",
  fps: "Frames per second",
  num_inference_steps: "Steps",
  guidance_scale: "Guidance (CFG)",
  negative_prompt: "Negative prompt",
};
const HIDDEN = ["prompt", "seed", "n", "loras", "output_format"];

function isTold(name: string, value: unknown): boolean {
  return !HIDDEN.includes(name) && !name.startsWith("input_") && value !== "";
}

function recipeView(job: Job, index: number, recipe: Recipe): VNode {
  const seed = job.outputs?.[index]?.seed ?? recipe["seed"];
  const seconds = job.ended_at && job.started_at ? job.ended_at - job.started_at : 0;
  const short = [
    String(recipe["size"]).replace("x", " × "),
    `seed ${seed}`,
    `${recipe["num_inference_steps"]} steps`,
    ...seconds > 0 ? [`${seconds} s`] : [],
  ];
  const loras = (recipe["loras"] as { path: string; strength: number }[])
    .map(({ path, strength }) => `${path} (${strength})`);
  const rows = [
    ["Seed", seed],
    ...Object.entries(recipe).filter(([name, value]) => isTold(name, value))
      .map(([name, value]) => [NAMES[name] ?? capital(words(name)), value]),
    ...loras.length > 0 ? [["LoRAs", loras.join(", ")]] : [],
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
          h("dd", {}, typeof value === "object" ? JSON.stringify(value) : String(value)),
        ]),
      ),
    ),
  );
}
