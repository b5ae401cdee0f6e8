/** What the model of the server can do, as `/v1/models` tells it. */

import { t } from "./texts.ts";

export type Output = "image" | "video";

export interface Setting {
  name: string;
  type: "text" | "integer" | "number" | "texts" | "integers" | "numbers" | "flag";
  choices?: string[];
  minimum?: number;
  maximum?: number;
  defaults: Record<string, unknown>;
}

export interface Addable {
  id: string;
  /** Whether the model was opened with it. */
  in_use: boolean;
}

export interface Model {
  id: string;
  supported_task_types: string[];
  native_sides: { least: number; most: number } | null;
  /** How a mask keeps a part of the image that is edited; null where it cannot. */
  inpainting: { strength: number } | null;
  /** Whether pictures steer its images, how many, and by which ControlNets. */
  takes_control: boolean;
  /** Whether a ControlNet may see an image without what its mask redraws. */
  controls_inpainting: boolean;
  max_controls: number;
  /** With what a picture may show, where it must be said. */
  ip_adapters: string[];
  control_nets: { name: string; modes: string[] | null }[];
  /** ControlNets and IP-Adapters of the server's machine that the model takes. */
  parts: {
    control_nets: Addable[];
    ip_adapters: Addable[];
    max_control_nets: number;
    max_ip_adapters: number;
  };
  sizes: string[];
  defaults: { size: string; num_frames: number; fps: number };
  limits: {
    size_multiple: number;
    max_pixels: number;
    size_is_budget: boolean;
    frame_multiple: number;
    max_frames: number;
    min_images: number;
    max_images: number;
    max_edit_images: number;
    max_references: number;
    takes_video_masks: boolean;
  };
  gives_audio: boolean;
  /** Whether its videos can follow a sound. */
  takes_audio: boolean;
  settings: Setting[];
  takes_loras: boolean;
  loras: string[];
  /** What LoRAs of such names are made for; the group of a pattern is the number of steps. */
  lora_defaults: { pattern: string; defaults: Record<string, unknown> }[];
  can_enhance: boolean;
}

/** Files and folders whose names tell nothing. */
const GENERIC = /^(?:pytorch_lora_weights|adapter_model|snapshots|[0-9a-f]{40})(?:\.\w+)?$/;

/** The model with the defaults of settings that its LoRAs are made for. */
export function withLoras(
  model: Model,
  loras: readonly { path: string; strength?: number }[],
): Model {
  for (const { path, strength = 1 } of loras) {
    if (strength === 0) continue;
    const name = path.split(/[\\/:]/).findLast((part) => part !== "" && !GENERIC.test(part)) ?? "";
    for (const { pattern, defaults } of model.lora_defaults) {
      const match = new RegExp(pattern, "i").exec(name);
      if (!match) continue;
      const own = match[1] ? { ...defaults, num_inference_steps: Number(match[1]) } : defaults;
      const settings = model.settings.map((setting) => {
        const value = own[setting.name] ?? (setting.name === "scheduler" ? null : undefined);
        if (value === undefined) return setting;
        const tasks = Object.keys(setting.defaults).map((task) => [task, value]);
        return { ...setting, defaults: Object.fromEntries(tasks) };
      });
      return { ...model, settings };
    }
  }
  return model;
}

/** What a request brings, as far as its task depends on it. */
export interface Inputs {
  output: Output;
  images: number;
  hasVideo: boolean;
  /** Whether a given clip is gone on from, and not changed. */
  continues: boolean;
}

const IMAGES_FROM_IMAGES = ["TI2I", "I2I"];
const VIDEOS_FROM_IMAGES = ["TI2V", "I2V"];

export function does(model: Model, ...tasks: string[]): boolean {
  return tasks.some((task) => model.supported_task_types.includes(task));
}

/** What the model makes, images first. */
export function outputsOf(model: Model): Output[] {
  const image = does(model, "T2I", ...IMAGES_FROM_IMAGES);
  const video = does(model, "T2V", "V2V", "F2V", ...VIDEOS_FROM_IMAGES);
  return [...image ? ["image" as const] : [], ...video ? ["video" as const] : []];
}

/** Most images that a result may be made of. */
export function maxImages(model: Model, output: Output): number {
  const [tasks, most] = output === "image"
    ? [IMAGES_FROM_IMAGES, model.limits.max_edit_images]
    : [VIDEOS_FROM_IMAGES, model.limits.max_images];
  return does(model, ...tasks) ? most : 0;
}

export function takesVideo(model: Model): boolean {
  return does(model, "V2V", "F2V");
}

/** The task of a request; undefined where the model has none for it. */
export function taskOf(model: Model, inputs: Inputs): string | undefined {
  const { output, images, hasVideo, continues } = inputs;
  const candidates = output === "image"
    ? images > 0 ? IMAGES_FROM_IMAGES : ["T2I", "TI2I"]
    : hasVideo
    ? continues ? ["F2V"] : ["V2V"]
    : images > 0
    ? VIDEOS_FROM_IMAGES
    : ["T2V", "TI2V"];
  return candidates.find((task) => does(model, task));
}

/** The settings that mean something for a task; a mask adds one. */
export function settingsFor(model: Model, task: string | undefined, isMasked = false): Setting[] {
  if (task === undefined) return [];
  const settings = model.settings.filter(({ name, defaults }) =>
    Object.hasOwn(defaults, task) &&
    (isMasked || !["padding_mask_crop", "mask_blur"].includes(name))
  );
  if (!isMasked || !model.inpainting) return settings;
  const strength: Setting = {
    name: "strength",
    type: "number",
    minimum: 0,
    maximum: 1,
    defaults: { [task]: model.inpainting.strength },
  };
  return [...settings.filter(({ name }) => name !== "strength"), strength];
}

export function takesSound(model: Model, { output }: Pick<Inputs, "output">): boolean {
  return output === "video" && model.takes_audio;
}

export function takesControl(model: Model, { output }: Pick<Inputs, "output">): boolean {
  return output === "image" && model.takes_control;
}

/** The ControlNet that sees a picture: the chosen one, or that of its place. */
export function controlNet(
  { control_nets: nets }: Model,
  chosen: unknown,
  place: number,
): Model["control_nets"][number] | undefined {
  return nets.find(({ name }) => name === chosen) ?? nets[Math.min(place, nets.length - 1)];
}

export function isOfControl({ takes_control: takes }: Model, name: string): boolean {
  return takes && /^(?:control|canny)_/.test(name);
}

/** Whether a setting is of reference images that an IP-Adapter sees. */
export function isOfReferences(name: string): boolean {
  return name.startsWith("ip_adapter_");
}

/** Whether a setting means nothing without a reference image. */
export function needsReference(name: string): boolean {
  return name === "reference_method";
}

/** Frames of a video that nobody said more of; a model may have one for images alone. */
export function ownFrames({ defaults, limits }: Model): number {
  return Math.max(defaults.num_frames, Math.min(limits.max_frames, 2 * limits.frame_multiple + 1));
}

/** The nearest size that the model can make; the side that was changed last gives way. */
export function nearestSize({ limits }: Model, sides: readonly number[], last: 0 | 1): string {
  const { size_multiple: step, max_pixels: most } = limits;
  const nearest = (side: number, limit: number) =>
    Math.min(Math.max(step, Math.round(side / step) * step), Math.floor(limit / step) * step);
  const other = nearest(sides[1 - last]!, most / step);
  const changed = nearest(sides[last]!, most / other);
  return last === 0 ? `${changed}x${other}` : `${other}x${changed}`;
}

export function sizeProblem(model: Model, width: number, height: number): string | undefined {
  const { size_multiple: step, max_pixels: most } = model.limits;
  if (!(width > 0 && height > 0)) return t("sidesPositive");
  if (width % step || height % step) return t("sidesMultiples", { step });
  if (width * height > most) return t("mostPixels", { most });
  return undefined;
}
