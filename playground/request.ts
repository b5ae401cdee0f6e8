/** From a draft to a request, and back from a recipe to a draft. */

import { call, callJson } from "./api.ts";
import {
  type ControlFile,
  type Draft,
  draft,
  type GivenFile,
  givenFile,
  givenReferences,
  isMasked,
  type LoraUse,
} from "./draft.ts";
import { chooseModel, currentModel, session } from "./session.ts";
import {
  addJob,
  type Job,
  keptInputs,
  type Recipe,
  recipeAt,
  recipeOf,
  type Result,
} from "./jobs.ts";
import { blobOf, dataUrlOf } from "./media.ts";
import { settingName, t } from "./texts.ts";
import {
  controlNet,
  isOfControl,
  isOfReferences,
  type Model,
  needsReference,
  type Output,
  ownFrames,
  settingsFor,
  sizeProblem,
  takesControl,
  takesSound,
  taskOf,
  withLoras,
} from "./model.ts";

/** Settings of control pictures, and what they are when nothing is chosen, unless the ControlNet says it. */
const USUAL_CONTROL = {
  control_net: undefined,
  control_mode: undefined,
  control_type: "map",
  control_balance: "balanced",
  control_scale: 1,
  control_start: 0,
  control_end: 1,
};

/** What a request says of each reference image that an IP-Adapter sees. */
const USUAL_REFERENCE = {
  ip_adapter_name: undefined,
  ip_adapter_mode: "all",
  ip_adapter_scale: 1,
  ip_adapter_start: 0,
  ip_adapter_end: 1,
};

/** Inputs that have fields of their own. */
const TOLD = ["mask", "audio", "control", "reference", "reference_mask"];

/** A BMP of one white pixel. */
const WHITE = Uint8Array.fromHex(
  "424d3a0000000000000036000000280000000100000001000000010018000000000004000000" +
    "00000000000000000000000000000000ffffff00",
);

/** Previews of an image that are asked for, the most that there are. */
const PREVIEWS = 3;

/** How the page reads weights in prompts, where the model takes any. */
export const PAGE_SYNTAX = "a1111";

/** A prompt with `{red|green}`. */
const CHOICE = /\{[^]*\|[^]*\}/;

/** Whether a brace of the prompt is text because nothing closes it. */
export function hasOpenBrace(prompt: string): boolean {
  let open = 0;
  for (const [sign] of prompt.matchAll(/\\[{}]|[{}]/g)) {
    if (sign === "{") open++;
    else if (sign === "}" && open > 0) open--;
  }
  return open > 0;
}

/** What steers an image: pictures, and the image without what its mask redraws where there is a mask. */
export function controlsOf(model: Model, state: Draft): ControlFile[] {
  if (!takesControl(model, state)) return [];
  return state.controls.filter(({ isPainted }) =>
    !isPainted || model.controls_inpainting && isMasked(state)
  );
}

/** The task that a draft comes to; undefined where the model has none for it. */
export function draftTask(
  model: Model,
  { output, images, clip, continues }: Draft,
): string | undefined {
  return taskOf(model, { output, images: images.length, hasVideo: clip !== null, continues });
}

type Brought = Pick<
  Draft,
  "images" | "clip" | "sound" | "mask" | "continues" | "controls" | "references"
>;

/** What jobs brought, of this visit or read from the server again. */
const brought = new Map<string, Brought>();

export async function send(model: Model, state: Draft = draft.state): Promise<Job> {
  const fields = fieldsOf(model, state);
  const files = filesOf(model, state);
  const isEdit = state.output === "image" && state.images.length > 0;
  const path = state.output === "video"
    ? "v1/videos"
    : isEdit
    ? "v1/images/edits"
    : "v1/images/generations";
  const controls = controlsOf(model, state).filter(({ isPainted }) => !isPainted);
  const references = givenReferences(model, state);
  // Without images to edit there is no form, and the pictures go as addresses.
  const isForm = files.length > 0;
  const urlsOf = (files: readonly Pick<GivenFile, "blob">[]) =>
    Promise.all(isForm ? [] : files.map(({ blob }) => dataUrlOf(blob)));
  const masks = referenceMasks(model, state);
  const [control, reference, reference_mask] = await Promise.all([
    urlsOf(controls),
    urlsOf(references),
    urlsOf(masks.map((blob) => ({ blob }))),
  ]);
  const sent = {
    ...fields,
    ...(control.length > 0 && { control }),
    ...(reference.length > 0 && { reference }),
    ...(reference_mask.length > 0 && { reference_mask }),
  };
  const job = await post(path, state.output, sent, files);
  const { images, clip, sound, mask, continues } = state;
  if (files.length + controls.length + references.length > 0) {
    brought.set(job.id, { images, clip, sound, mask, continues, controls, references });
  }
  return job;
}

/** Reads what a job brought where the server has kept it. */
async function recall({ id }: Job, recipe: Recipe): Promise<Brought> {
  const known = brought.get(id);
  if (known) return known;
  const inputs = await Promise.all(
    keptInputs(id).map(async ({ field, url, content_type }) => {
      const blob = new Blob([await (await call(url)).blob()], { type: content_type });
      return { field, file: givenFile(blob, `${field}.${content_type.split("/")[1]}`) };
    }),
  );
  const given = (asked: string) =>
    inputs.filter(({ field }) => field === asked).map(({ file }) => file);
  const isClip = ({ blob: { type } }: GivenFile) =>
    type.startsWith("video/") || type === "image/gif" && recipe["input_video"] === true;
  const sources = inputs.filter(({ field }) => !TOLD.includes(field))
    .map(({ file }) => file);
  const kept = {
    images: sources.filter((file) => !isClip(file)),
    clip: sources.find(isClip) ?? null,
    sound: given("audio")[0] ?? null,
    mask: given("mask")[0]?.blob ?? null,
    continues: recipe["task_type"] === "F2V",
    controls: given("control").map((file, place) => ({
      ...file,
      settings: settingsAt(recipe, USUAL_CONTROL, place),
    })),
    references: given("reference").map((file, place) => ({
      ...file,
      settings: settingsAt(recipe, USUAL_REFERENCE, place),
      mask: given("reference_mask")[place],
    })),
  };
  brought.set(id, kept);
  return kept;
}

/** What a recipe says of the control picture, or reference image, of a place. */
function settingsAt(recipe: Recipe, usual: object, place: number): Record<string, unknown> {
  return Object.fromEntries(
    Object.keys(usual).map((name) => {
      const all = [recipe[name]].flat();
      return [name, all.length === 1 ? all[0] : all[place]];
    }).filter(([, value]) => value !== undefined),
  );
}

/** The image that an edit began with. */
export async function imageBefore(job: Job): Promise<Blob | undefined> {
  return (await recall(job, await recipeOf(job.id))).images[0]?.blob;
}

/** Whether an edit's first image is at hand, once its recipe is known. */
export function hasImageBefore({ id, kind }: Job): boolean {
  const isKept = keptInputs(id).some(({ field }) => field === "image" || field === "url");
  return kind === "image" && ((brought.get(id)?.images.length ?? 0) > 0 || isKept);
}

/** Whether all that a job was made of is at hand. */
export function isRepeatable({ id }: Job, recipe: Recipe): boolean {
  return brought.has(id) || keptInputs(id).length > 0 ||
    ["images", "video", "audio", "control", "references"].every((name) => !recipe[`input_${name}`]);
}

async function post(
  path: string,
  kind: Output,
  fields: Record<string, unknown>,
  files: readonly (readonly [string, Blob, string])[],
): Promise<Job> {
  const init = files.length > 0 ? { body: formOf(fields, files) } : {
    body: JSON.stringify(fields),
    headers: { "content-type": "application/json" },
  };
  const headers = { ...init.headers, prefer: "respond-async" };
  const answer = await callJson<Job>(path, { method: "POST", ...init, headers });
  // A video's record is not that of its job.
  const job = kind === "video" ? await callJson<Job>(`v1/jobs/${answer.id}`) : answer;
  addJob(job);
  return job;
}

function formOf(
  fields: Record<string, unknown>,
  files: readonly (readonly [string, Blob, string])[],
): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    for (const each of [value].flat()) {
      form.append(name, typeof each === "object" ? JSON.stringify(each) : String(each));
    }
  }
  for (const [name, blob, file] of files) form.append(name, blob, file);
  return form;
}

function fieldsOf(model: Model, state: Draft): Record<string, unknown> {
  const task = draftTask(model, state);
  const known = settingsFor(model, task, isMasked(state)).map(({ name }) => name)
    .filter((name) => !isOfControl(model, name) && !isOfReferences(name))
    .filter((name) => givenReferences(model, state).length > 0 || !needsReference(name));
  if (model.can_enhance) known.push("enhance_prompt");
  if (model.gives_audio && state.output === "video") known.push("enable_audio");
  const chosen = Object.entries(state.settings).filter(([name]) => known.includes(name));
  // Layers have alpha, which JPEG cannot hold.
  const format = known.includes("layers") && state.format === "jpeg" ? "png" : state.format;
  return {
    model: model.id,
    prompt: state.prompt.trim(),
    ...(CHOICE.test(state.prompt) ? { wildcards: true } : {}),
    ...(known.includes("prompt_syntax") ? { prompt_syntax: PAGE_SYNTAX } : {}),
    ...(state.size ? { size: state.size } : {}),
    ...(state.count > 1 ? { n: state.count } : {}),
    ...((state.keepsSeed || state.usesSeed) && state.seed !== null ? { seed: state.seed } : {}),
    ...Object.fromEntries(chosen),
    ...controlFields(model, state),
    ...referenceFields(model, state),
    ...(state.loras.length > 0 && model.takes_loras ? { loras: state.loras } : {}),
    ...(state.output === "image" ? { output_format: format, partial_images: PREVIEWS } : {
      task_type: task,
      ...(state.clip && state.numFrames === null
        ? {}
        : { num_frames: state.numFrames ?? ownFrames(model) }),
      ...(state.fps === null ? {} : { fps: state.fps }),
    }),
  };
}

/** Settings of the control pictures, a list of values for each that was chosen or must be said. */
function controlFields(model: Model, state: Draft): Record<string, unknown[]> {
  const controls = controlsOf(model, state);
  const usual: Record<string, unknown> = { ...USUAL_CONTROL };
  const lists = Object.keys(usual).map((name) => {
    const values = controls.map(({ settings }, place) => {
      const net = controlNet(model, settings["control_net"], place);
      const own = name === "control_net" ? net?.name : net?.modes?.[0] ?? "none";
      return settings[name] ?? usual[name] ?? own;
    });
    const isSaid = controls.some(({ settings }) => settings[name] !== undefined) ||
      name === "control_mode" && values.some((value) => value !== "none") ||
      name === "control_net" && controls.length > 1 && model.control_nets.length > 1;
    return [name, isSaid ? values : []] as const;
  });
  return Object.fromEntries(lists.filter(([, values]) => values.length > 0));
}

/** Settings of the reference images, a list of values for each that was chosen. */
function referenceFields(model: Model, state: Draft): Record<string, unknown[]> {
  const references = givenReferences(model, state);
  const adapters = model.ip_adapters;
  const lists = Object.entries(USUAL_REFERENCE).map(([name, usual]) => {
    const isSaid = references.some(({ settings }) => settings[name] !== undefined) ||
      name === "ip_adapter_name" && references.length > adapters.length && adapters.length > 1;
    const values = references.map(({ settings }, place) =>
      settings[name] ?? usual ?? adapters[Math.min(place, adapters.length - 1)]
    );
    return [name, isSaid ? values : []] as const;
  });
  return Object.fromEntries(lists.filter(([, values]) => values.length > 0));
}

/** Masks of the reference images, where one has a mask; others are seen everywhere. */
function referenceMasks(model: Model, state: Draft): Blob[] {
  const references = givenReferences(model, state);
  if (!references.some(({ mask }) => mask)) return [];
  return references.map(({ mask }) => mask?.blob ?? new Blob([WHITE], { type: "image/bmp" }));
}

function filesOf(model: Model, state: Draft): (readonly [string, Blob, string])[] {
  const { output, images, clip, sound, mask } = state;
  const references = givenReferences(model, state)
    .map(({ blob, name }) => ["reference", blob, name] as const);
  if (output === "image") {
    return images.length === 0 ? [] : [
      ...images.map(({ blob, name }) => ["image[]", blob, name] as const),
      ...(mask && model.inpainting ? [["mask", mask, "mask.png"] as const] : []),
      ...controlsOf(model, state).filter(({ isPainted }) => !isPainted)
        .map(({ blob, name }) => ["control", blob, name] as const),
      ...references,
      ...referenceMasks(model, state)
        .map((blob, place) => ["reference_mask", blob, `mask_${place + 1}`] as const),
    ];
  }
  const heard = sound && takesSound(model, state)
    ? [["audio", sound.blob, sound.name] as const]
    : [];
  if (clip) return [["video", clip.blob, clip.name], ...references, ...heard];
  return [
    ...references,
    ...heard,
    ...images.map(({ blob, name }, i) =>
      [i > 0 && i === images.length - 1 ? "last_image" : "input_reference", blob, name] as const
    ),
  ];
}

/** The model that a recipe was made with; undefined where the server does not have it any more. */
export function modelOf({ model: id }: Recipe): Model | undefined {
  const { models } = session.state;
  return id === undefined ? currentModel(session.state) : models.find((model) => model.id === id);
}

/** Puts a job's recipe into the draft, with its model, and with what it brought where that is at hand. */
export async function reuse(job: Job, index: number | null): Promise<void> {
  const recipe = recipeAt(await recipeOf(job.id), job, index);
  const model = modelOf(recipe);
  if (model) chooseModel(model.id);
  const other = model ?? currentModel(session.state);
  if (other) draft.set(draftOf(other, job, recipe, await recall(job, recipe)));
}

export async function vary(model: Model, job: Job, recipe: Recipe): Promise<Job> {
  const drafted = draftOf(model, job, recipe, await recall(job, recipe));
  return await send(model, { ...drafted, keepsSeed: false, usesSeed: false });
}

/** Puts the recipe of a file into the draft, with its model where that is here; returns what cannot be used. */
export function applyRecipe(recipe: Partial<Recipe>): string[] {
  const { prompt = "", model: id, seed, size = "", loras = [], ...others } = recipe;
  const own = session.state.models.find((model) => model.id === id);
  if (own) chooseModel(own.id);
  const model = own ?? currentModel(session.state);
  if (!model) return [];
  const unused = id === undefined || own ? [] : [t("unusedModel", { name: String(id) })];
  const task = taskOf(model, { output: "image", images: 0, hasVideo: false, continues: false });
  const known = settingsFor(withLoras(model, loras as LoraUse[]), task)
    .filter(({ name }) => !isOfControl(model, name));
  const settings: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(others)) {
    const setting = known.find((setting) => setting.name === name);
    const { maximum = Infinity, defaults = {} } = setting ?? {};
    if (!setting || Number(value) > maximum) unused.push(`${settingName(name)} ${value}`);
    else if (JSON.stringify(defaults[String(task)]) !== JSON.stringify(value)) {
      settings[name] = value;
    }
  }
  const [width = 0, height = 0] = String(size).split("x").map(Number);
  const problem = size ? sizeProblem(model, width, height) : undefined;
  if (problem) {
    unused.push(t("unusedSize", { size: String(size), problem: problem.replace(/[.。]$/, "") }));
  }
  const uses = loras as LoraUse[];
  if (uses.length > 0 && !model.takes_loras) unused.push(t("loras"));
  draft.set({
    prompt,
    settings,
    size: problem ? "" : String(size),
    count: 1,
    keepsSeed: false,
    usesSeed: seed !== undefined,
    seed: (seed ?? null) as number | null,
    loras: model.takes_loras ? uses : [],
    ...(task === undefined ? {} : { output: "image" as const }),
  });
  return unused;
}

function draftOf(model: Model, job: Job, recipe: Recipe, inputs: Brought): Draft {
  // Those of control pictures come with the pictures.
  const own = model.settings.map(({ name }) => name).filter((name) =>
    !isOfControl(model, name) && !isOfReferences(name)
  );
  const known = new Set([...own, "strength", "enable_audio"]);
  const told = known.has("prompt_syntax") ? { prompt_syntax: "plain", ...recipe } : recipe;
  const settings = Object.fromEntries(
    Object.entries(told).filter(([name, value]) =>
      known.has(name) && !isDefault(model, recipe, name, value)
    ),
  );
  const { seed, size, n, loras, num_frames: numFrames, fps, output_format: format } = recipe;
  return {
    ...draft.state,
    output: job.kind,
    prompt: recipe.prompt,
    size: size as string,
    count: n as number,
    keepsSeed: false,
    usesSeed: true,
    seed: (Array.isArray(seed) ? seed[0] : seed) as number,
    settings,
    loras: loras as LoraUse[],
    ...(job.kind === "video"
      ? { numFrames: numFrames as number, fps: fps as number }
      : { format: format as Draft["format"] }),
    ...inputs,
  };
}

function isDefault(model: Model, { task_type: task, loras }: Recipe, name: string, value: unknown) {
  const { settings } = withLoras(model, (loras ?? []) as LoraUse[]);
  const { defaults = {} } = settings.find((setting) => setting.name === name) ?? {};
  return JSON.stringify(defaults[String(task)]) === JSON.stringify(value);
}

/** Takes a result into the draft, to be edited or set in motion. */
export async function startFrom(
  job: Job,
  result: Result,
  output: Output,
  continues = false,
): Promise<void> {
  const blob = await blobOf(result);
  const isVideo = result.content_type.startsWith("video/");
  const file = givenFile(blob, isVideo ? "clip.mp4" : `image.${blob.type.split("/")[1]}`);
  draft.set({
    output,
    images: isVideo ? [] : [file],
    clip: isVideo ? file : null,
    continues,
    mask: null,
    size: job.size ?? "",
  });
}
