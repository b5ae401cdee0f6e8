/**
 * A request made ready for the engine: the one place that orders the steps, for the library and for the server.
 * Whatever is wrong is a `FieldError`, which names the field.
 */

import type {
  GenerateRequest,
  ModelInfo,
  RoomRequest,
  SamplingSettings,
  TaskType,
} from "../engine/types.ts";
import { type Fit, grownSize } from "../media/fit.ts";
import type { MaskWay } from "../media/mask.ts";
import { hiresSize } from "../engine/hires.ts";
import type { HiresSettings } from "../models/pipeline/settings.ts";
import { checkControlMask, checkControls, checkSeen, controlSize } from "./control.ts";
import { type NamedLora, withDistilled } from "./distilled_loras.ts";
import { checkPrompt, type GivenSettings } from "./field_values.ts";
import type { FitMode } from "./fields.ts";
import {
  checkHires,
  checkMaskShape,
  checkReferenceCount,
  checkSize,
  fitMasked,
  fitOf,
  fitToResult,
  keepWhole,
  maskedRules,
  referenceFit,
  type Size,
  sizeFromImage,
  sizeFromMasked,
  takesMask,
  visionFit,
  wholeSize,
} from "./size.ts";
import { checked, completeSettings, FieldError, refused, settingsOf } from "./settings.ts";
import { chooseWords, promptOf } from "./wildcards.ts";
import { resolveTask, type TaskQuery } from "./task.ts";

export interface InputTypes {
  readonly source: unknown;
  readonly open: Size;
  readonly kept: unknown;
}

/** One way to read inputs: in this process, or in isolated ones. */
export interface InputReader<T extends InputTypes> {
  open(source: T["source"]): Promise<T["open"]>;
  /** Decodes an image and brings it to a size; tells whether nothing is seen of some of its pixels. */
  fit(image: T["open"], how: Fit): Promise<{ image: T["kept"]; hasHoles: boolean }>;
  /** Makes a mask of an image, white where the result is painted; throws a `RangeError` when nothing is. */
  mask(image: T["open"], how: Fit, way: MaskWay | undefined): Promise<T["kept"]>;
}

/** What a request says beside its inputs; nothing of it is checked yet. */
export interface AskedText {
  readonly prompt: string;
  /** Whether `{red|green}` in the prompt is one of the words. */
  readonly wildcards?: boolean | null | undefined;
  /** Settings by the names of their rows; further members do no harm. */
  readonly given: GivenSettings;
  readonly taskType?: string | null | undefined;
  /** Pixels; what the inputs or the model say by default. */
  readonly width?: number | null | undefined;
  readonly height?: number | null | undefined;
  readonly fit?: FitMode | undefined;
}

export interface Asked<T extends InputTypes> extends AskedText {
  readonly images: readonly T["source"][];
  readonly mask?: T["source"] | undefined;
  readonly maskWay?: MaskWay | undefined;
  readonly control?: readonly T["source"][] | undefined;
  readonly references?: readonly T["source"][] | undefined;
  readonly referenceMasks?: readonly T["source"][] | undefined;
  /** LoRAs in use; some are made for settings of their own. */
  readonly loras?: readonly NamedLora[] | undefined;
  /** How often the unfinished result is shown. */
  readonly previews?: number | undefined;
}

export interface Preparation<T extends InputTypes> {
  readonly info: ModelInfo;
  readonly reader: InputReader<T>;
  /** Refuses with a `RangeError` what the model cannot make on this machine; by default the engine does, at the job's turn. */
  readonly checkRoom?: (request: RoomRequest) => Promise<void>;
  /** What messages call a setting; the name of its row by default. */
  readonly spell?: (name: keyof SamplingSettings) => string;
  readonly howToSend?: TaskQuery["howToSend"] & { readonly lastImage?: string };
}

/** A request that the engine can take once its inputs are in memory. */
export interface Prepared<Kept> extends SamplingSettings {
  /** The prompt as sent. */
  prompt: string;
  /** Whether each seed chooses words of it. */
  wildcards?: true;
  /** The task that was asked for, or that follows from the request. */
  taskType: TaskType;
  /** Pixels per row. */
  width: number;
  /** Number of rows. */
  height: number;
  /** The size that is drawn, where it is another: of the area around the mask, or of an image with its edges mirrored. */
  cropSize?: Size;
  /** Images to edit or to start from, of the sizes in which the model takes them. */
  images: Kept[];
  /** What the model's image encoder sees of these, where it has one. */
  visions?: Kept[];
  /** Which part of the first image is redrawn; that image has the size of the result then. */
  mask?: Kept;
  /** What ControlNets steer the result by, of its size. */
  control?: Kept[];
  /** Images of what shall be seen in the result. */
  references?: Kept[];
  /** Where the result shows each of them, of its size. */
  referenceMasks?: Kept[];
}

/** Why given fields change nothing, as clauses by name; they are omitted. */
export type Idle = ReadonlyMap<string, string>;

/** @throws {FieldError} for what this model or this machine cannot do */
export async function prepareImages<T extends InputTypes>(
  asked: Asked<T>,
  by: Preparation<T>,
): Promise<{ request: Prepared<T["kept"]>; idle: Idle }> {
  const { reader } = by;
  const info = withDistilled(by.info, asked.loras ?? [], asked.given);
  const count = asked.images.length;
  const taskType = chooseTask(asked, { output: "IMAGE", hasVideo: false }, by);
  checked("images", () => checkImageCount(count, info.maxEditImages));
  const references = countReferences(asked, info);
  const controls = asked.control?.length ?? 0;
  const isMaskTaken = takesMask(info, taskType);
  const grows = isMaskTaken && asked.given.outpaint !== undefined && asked.given.outpaint !== null;
  const hasMask = isMaskTaken && (asked.mask !== undefined || grows);
  if (grows && asked.mask !== undefined) {
    throw new FieldError(
      "mask",
      "Cannot use a mask with outpaint: what is added is the mask; omit one",
    );
  }
  const complete = (isMasked: boolean) =>
    completeRequest(asked, taskType, { ...by, info: isMasked ? maskedRules(info) : info });
  let { settings, idle } = complete(hasMask);
  checkControls(settings, controls, info, by.spell);
  const masks = info.ipAdapters ? asked.referenceMasks ?? [] : [];
  checkSeen(settings, { references, masks: masks.length }, info, by.spell);
  const images: T["open"][] = [];
  for (const image of asked.images) images.push(await reader.open(image));
  const [own] = images;
  const { outpaint } = settings;
  const first: Size | undefined = own && grownSize(own, outpaint);
  const mask = !hasMask ? undefined : grows ? own : await reader.open(asked.mask);
  if (mask && !grows) checked("mask", () => checkMaskShape(mask, first!));
  const [seen] = info.isShapedByReferences ? asked.references ?? [] : [];
  const reference = seen !== undefined && await reader.open(seen);
  const pictures: T["open"][] = [];
  for (const picture of asked.control ?? []) pictures.push(await reader.open(picture));
  const isAlone = count === 1;
  const ownSize = (isMasked: boolean): Size => {
    if (first) return isMasked ? sizeFromMasked(first, info) : sizeFromImage(first, info, isAlone);
    if (pictures[0]) return controlSize(pictures[0], info);
    return reference ? sizeFromImage(reference, info) : info.defaults;
  };
  const sizeOf = async (isMasked: boolean) => {
    const isCropped = isMasked && settings.paddingMaskCrop !== undefined;
    const own = isCropped ? info.defaults : checked("images", () => ownSize(isMasked));
    const size = chooseSize(asked, own, info);
    checked("hiresScale", () => checkHires({ ...settings, ...size }, info));
    const given = { images: count, hasMask: isMasked, controls };
    await checkRoom({ ...settings, ...size, taskType, ...given, references }, asked, by);
    return size;
  };
  let size = await sizeOf(hasMask);
  const keep = async (source: T["open"], way?: MaskWay) => {
    const whole = wholeSize(first!, info);
    const fit = settings.paddingMaskCrop !== undefined
      ? { scaled: whole, cut: whole }
      : fitMasked(first!, size, info, asked.fit);
    const how = { ...fit, outpaint };
    const mask = await reader.mask(source, how, way)
      .catch(refused(source === own ? "images" : "mask"));
    return { mask, image: (await reader.fit(own!, how)).image };
  };
  const fitUsually = (image: T["open"]) =>
    reader.fit(
      image,
      checked("images", () => fitOf(image, size, info, { mode: asked.fit, isAlone })),
    );
  let kept = mask && await keep(mask, asked.maskWay);
  const usual = own && !kept ? await fitUsually(own) : undefined;
  // An image with holes, alone, is its own mask.
  if (own && usual?.hasHoles && isMaskTaken && count === 1) {
    ({ settings, idle } = complete(true));
    size = await sizeOf(true);
    kept = await keep(own);
  }
  checkControlMask(settings, kept !== undefined, by.spell);
  const fitted: T["kept"][] = first ? [kept ? kept.image : usual!.image] : [];
  for (const image of images.slice(1)) fitted.push((await fitUsually(image)).image);
  const isFitted = controls > 0 || masks.length > 0 || first && (!info.imageLimits || kept);
  const { paddingMaskCrop, maskBlur, ...others } = settings;
  const isCropped = kept !== undefined && paddingMaskCrop !== undefined;
  const padded = own && !kept ? paddedSize(own, asked, settings, info) : undefined;
  const result = isCropped ? wholeSize(first!, info) : padded ?? size;
  const control: T["kept"][] = [];
  for (const picture of pictures) {
    control.push((await reader.fit(picture, fitToResult(result, asked.fit))).image);
  }
  const referenceMasks: T["kept"][] = [];
  for (const mask of masks) {
    const how = fitToResult(result, asked.fit);
    referenceMasks.push((await reader.fit(await reader.open(mask), how)).image);
  }
  return {
    request: {
      ...others,
      ...(isCropped && { paddingMaskCrop }),
      ...(result !== size && { cropSize: size }),
      ...(kept && maskBlur !== undefined && { maskBlur }),
      ...result,
      prompt: asked.prompt,
      ...(asked.wildcards && { wildcards: true }),
      taskType,
      images: fitted,
      ...await visionsOf(images, by),
      ...(kept && { mask: kept.mask }),
      ...(controls > 0 && { control }),
      ...await referencesOf(asked, by),
      ...(masks.length > 0 && { referenceMasks }),
    },
    idle: idleInputs(
      withoutMask(idle, { paddingMaskCrop, maskBlur }, kept !== undefined),
      asked,
      info,
      {
        mask: isMaskTaken
          ? undefined
          : !first && info.inpainting
          ? "there is no image that it is for"
          : "this model redraws images as a whole",
        referenceMasks: info.ipAdapters ? undefined : "this model has no IP-Adapter",
        fit: isCropped
          ? "the image keeps its size"
          : isFitted
          ? undefined
          : "no image is brought to the size of the result",
      },
    ),
  };
}

/** The size of a single image that is drawn with its edges mirrored, where no size was asked; nothing if they need not be. */
function paddedSize<T extends InputTypes>(
  image: Size,
  { images, width, height }: Pick<Asked<T>, "images" | "width" | "height">,
  settings: HiresSettings,
  info: ModelInfo,
): Size | undefined {
  if (images.length !== 1 || (width ?? height ?? undefined) !== undefined) return undefined;
  const whole = keepWhole(image, info);
  if (!whole || hiresSize({ ...whole.mirrored, ...settings }, info)) return undefined;
  const { scaled, mirrored } = whole;
  const isPadded = scaled.width !== mirrored.width || scaled.height !== mirrored.height;
  return isPadded ? scaled : undefined;
}

/** What the engine is asked for one output; LoRAs and inputs are the caller's. */
export function engineRequest(
  request:
    & Prepared<unknown>
    & Pick<GenerateRequest, "numFrames" | "fps" | "enableAudio" | "audioAlone">,
  seed: number,
): GenerateRequest {
  const { width, height, cropSize, numFrames = 1, fps, enableAudio, audioAlone, taskType } =
    request;
  const size = { width, height, ...(cropSize && { cropSize }) };
  const prompt = promptOf(request, seed);
  const rate = fps !== undefined && { fps };
  const sound = {
    ...(enableAudio === false && { enableAudio }),
    ...(audioAlone && { audioAlone }),
  };
  return { ...settingsOf(request), ...size, prompt, numFrames, ...rate, ...sound, seed, taskType };
}

export function chooseTask<T extends InputTypes>(
  { taskType, images }: Pick<Asked<T>, "taskType" | "images">,
  query: Pick<TaskQuery, "output" | "hasVideo">,
  { info, howToSend }: Pick<Preparation<T>, "info" | "howToSend">,
): TaskType {
  return checked("taskType", () =>
    resolveTask({
      ...query,
      hasImage: images.length > 0,
      ...(taskType ? { taskType } : {}),
      ...(howToSend && { howToSend }),
    }, info));
}

/** The settings of a request, and those that change nothing. */
export function completeRequest<T extends InputTypes>(
  { prompt, wildcards, given }: Asked<T>,
  taskType: TaskType,
  { info, spell }: Pick<Preparation<T>, "info" | "spell">,
): ReturnType<typeof completeSettings> {
  checked("prompt", () => checkPrompt("prompt", prompt));
  // All choices may be empty.
  if (wildcards) checked("prompt", () => checkPrompt("prompt", chooseWords(prompt, 0)));
  return completeSettings(given, taskType, info, spell);
}

export function chooseSize<T extends InputTypes>(
  { width, height }: Pick<Asked<T>, "width" | "height">,
  own: Size,
  info: ModelInfo,
): Size {
  const size = { width: width ?? own.width, height: height ?? own.height };
  checked("size", () => checkSize(size, info));
  return size;
}

/** @throws {RangeError} when the model takes fewer, or none */
export function checkImageCount(count: number, most: number): void {
  if (count <= most) return;
  const what = count === 1 ? "an image" : `${count} images`;
  throw new RangeError(`Cannot use ${what}: this model takes ${most || "none"}`);
}

/** How many reference images the model is given: none where it takes none, which is told as idle. */
export function countReferences<T extends InputTypes>(
  { references = [] }: Pick<Asked<T>, "references">,
  info: ModelInfo,
): number {
  const count = info.maxReferences ? references.length : 0;
  checked("references", () => checkReferenceCount(count, info));
  return count;
}

export async function checkRoom<T extends InputTypes>(
  room: RoomRequest,
  { previews = 0 }: Pick<Asked<T>, "previews">,
  { checkRoom, spell }: Pick<Preparation<T>, "checkRoom" | "spell">,
): Promise<void> {
  await checkRoom?.({ ...room, previews }).catch(refused("size", spell));
}

export async function visionsOf<T extends InputTypes>(
  images: readonly T["open"][],
  { info: { visionSide }, reader }: Pick<Preparation<T>, "info" | "reader">,
): Promise<{ visions?: T["kept"][] }> {
  if (!visionSide || images.length === 0) return {};
  const visions: T["kept"][] = [];
  for (const image of images) {
    visions.push((await reader.fit(image, visionFit(image, visionSide))).image);
  }
  return { visions };
}

export async function referencesOf<T extends InputTypes>(
  { references = [] }: Pick<Asked<T>, "references">,
  { info, reader }: Pick<Preparation<T>, "info" | "reader">,
): Promise<{ references?: T["kept"][] }> {
  if (references.length === 0 || !info.maxReferences) return {};
  const kept: T["kept"][] = [];
  for (const source of references) {
    const image = await reader.open(source);
    const how = info.referenceSide ? visionFit(image, info.referenceSide) : referenceFit(image);
    kept.push((await reader.fit(image, how)).image);
  }
  return { references: kept };
}

/** Settings of a mask change nothing without one. */
function withoutMask(
  idle: Idle,
  settings: Readonly<Record<"paddingMaskCrop" | "maskBlur", unknown>>,
  isMasked: boolean,
): Idle {
  if (isMasked) return idle;
  const given = Object.entries(settings).filter(([, value]) => value !== undefined);
  return new Map([...idle, ...given.map(([name]) => [name, "there is no mask"] as const)]);
}

/** Why inputs that are given change nothing, beside the settings that do not. */
export function idleInputs<T extends InputTypes>(
  settings: Idle,
  asked: Asked<T>,
  { maxReferences }: ModelInfo,
  whys: Readonly<Record<string, string | undefined>>,
): Idle {
  const idle = new Map(settings);
  const all = {
    ...whys,
    references: maxReferences ? undefined : "this model takes no reference images",
  };
  for (const [name, why] of Object.entries(all)) {
    const value = asked[name as keyof typeof asked];
    const isGiven = Array.isArray(value) ? value.length > 0 : value !== undefined && value !== null;
    if (why !== undefined && isGiven) idle.set(name, why);
  }
  return idle;
}
