/** What a server tells of its model: its tasks, its limits, and which settings it takes. */

import type { ModelInfo, TaskType } from "../../engine/types.ts";
import { distilledKinds } from "../../generation/distilled_loras.ts";
import {
  type GivenSettings,
  httpNames,
  type SettingField,
  snakeCase,
} from "../../generation/field_values.ts";
import { SETTING_FIELDS, SETTING_NAMES } from "../../generation/fields.ts";
import { type Size, sizeLike } from "../../generation/size.ts";
import { outputOf } from "../../generation/task.ts";
import type { ModelCard } from "../contract/answers.ts";
import type { Steering } from "../../hub/steering_parts.ts";
import { type ServedModel, stateOf } from "../served_models.ts";
import type { ServerSettings } from "../settings.ts";

/** Shapes that people ask for, wide ones; each is offered upright as well. */
const SHAPES: readonly (readonly [number, number])[] = [[1, 1], [4, 3], [3, 2], [16, 9]];

/** Formats of weights whose names in the contract are not those that files have for them. */
const PRECISION_NAMES: Readonly<Record<string, string>> = { f16: "fp16", f32: "fp32" };

export function precisionName(format: string): string {
  return PRECISION_NAMES[format] ?? format;
}

/** The pipeline in words, such as `Wan`. */
export function pipelineName({ className }: ModelInfo): string {
  return className.replace(/Pipeline$/, "");
}

/** The record of a model. */
export function modelCard(
  model: Pick<ServedModel, "name" | "engine" | "namedLoras" | "steering">,
  settings: Pick<ServerSettings, "numGpus">,
  canEnhance: boolean,
  info: ModelInfo = model.engine.info ?? model.engine.engine.info,
): ModelCard {
  const { defaults } = info;
  return {
    id: model.name,
    object: "model",
    created: Math.floor(Date.now() / 1000),
    owned_by: "denoise",
    root: model.name,
    parent: null,
    max_model_len: null,
    num_gpus: settings.numGpus,
    state: stateOf(model),
    task_type: info.defaultTask,
    supported_task_types: info.supportedTasks,
    native_sides: info.nativeSides ?? null,
    inpainting: info.inpainting ?? null,
    takes_control: info.needsControl || info.controlNets.length > 0 && !info.controlsByMask,
    controls_inpainting: info.controlsInpainting === true,
    max_controls: info.maxControls ?? 1,
    ip_adapters: (info.ipAdapters ?? []).map(({ name }) => name),
    control_nets: info.controlNets.map(({ name, modes }) => ({ name, modes: modes ?? null })),
    parts: {
      control_nets: partsOf(model, "controlNets"),
      ip_adapters: partsOf(model, "ipAdapters"),
      max_control_nets: model.steering?.most.controlNets ?? 0,
      max_ip_adapters: model.steering?.most.ipAdapters ?? 0,
    },
    dit_precision: precisionName(info.precisions.transformer),
    vae_precision: precisionName(info.precisions.vae),
    pipeline_name: pipelineName(info),
    pipeline_class: info.className,
    sizes: sizesOf(info).map(({ width, height }) => `${width}x${height}`),
    defaults: {
      size: `${defaults.width}x${defaults.height}`,
      num_frames: defaults.numFrames,
      fps: defaults.fps,
    },
    limits: {
      size_multiple: info.sizeMultiple,
      max_pixels: info.maxPixels,
      size_is_budget: info.animates === true,
      frame_multiple: info.frameMultiple,
      max_frames: info.maxFrames,
      min_images: info.minImages ?? 1,
      max_images: info.maxImages,
      max_edit_images: info.maxEditImages,
      max_references: info.maxReferences ?? 0,
      takes_video_masks: info.takesMasks === true,
    },
    gives_audio: info.givesAudio === true,
    takes_audio: info.takesAudio !== undefined,
    settings: settingsOffered(info),
    takes_loras: info.loraTargets.length > 0,
    loras: info.loraTargets.length > 0 ? Object.keys(model.namedLoras) : [],
    lora_defaults: distilledKinds(info).map(({ pattern, ...defaults }) => ({
      pattern: pattern.source,
      defaults: Object.fromEntries(
        Object.entries(defaults).map(([name, value]) => [snakeCase(name), value]),
      ),
    })),
    can_enhance: canEnhance,
  };
}

function partsOf({ steering }: Pick<ServedModel, "steering">, kind: keyof Steering) {
  const { available, used } = steering ?? {};
  return available?.[kind].map((id) => ({ id, in_use: used?.[kind].includes(id) === true })) ?? [];
}

/** Sizes of common shapes, of about the pixels of the model's own size, or of its sides; its own first. */
function sizesOf(info: ModelInfo): Size[] {
  const { defaults, nativeSides, sizeMultiple } = info;
  const own = { width: defaults.width, height: defaults.height };
  const wide = SHAPES.map(([width, height]) => {
    if (!nativeSides) return sizeLike({ width, height }, own, info);
    const { least, most } = nativeSides;
    const short = Math.round(most * height / width / sizeMultiple) * sizeMultiple;
    return { width: most, height: Math.max(least, short) };
  });
  const sizes = [own, ...wide.flatMap((size) => [size, upright(size)])];
  return [...new Map(sizes.map((size) => [`${size.width}x${size.height}`, size])).values()];
}

function upright({ width, height }: Size): Size {
  return { width: height, height: width };
}

/** The rows of the table of fields that mean something to this model. */
function settingsOffered(info: ModelInfo): ModelCard["settings"] {
  const offered: ModelCard["settings"][number][] = [];
  // Switches that are offered: what depends on them, or on a hires fix, is offered as if they were on.
  const given: Record<string, unknown> = { hiresScale: 2 };
  for (const name of SETTING_NAMES) {
    const row = SETTING_FIELDS[name] as SettingField<unknown>;
    const takes = (value: unknown) =>
      accepts(row, name, row.kind === "texts" ? [value] : value, info);
    if (row.kind === "flag" && !takes(true)) continue;
    const choices = row.choices?.filter(takes);
    if (choices && choices.length < 2) continue;
    if (row.kind === "flag") given[name] = true;
    const tasks = info.supportedTasks.filter((task) =>
      row.idle?.(info, task, given) === undefined &&
      (row.output === undefined || row.output === outputOf(task))
    );
    if (tasks.length === 0) continue;
    const [least, most] = row.bounds?.(info) ?? [];
    offered.push({
      name: httpNames(name, row)[0]!,
      description: row.text,
      type: row.kind,
      ...(choices ? { choices } : {}),
      ...(least === undefined ? {} : { minimum: least }),
      ...(most === undefined || most === Infinity ? {} : { maximum: most }),
      defaults: Object.fromEntries(tasks.map((task) => [task, initialOf(row, info, task)])),
    });
  }
  return offered;
}

function initialOf(row: SettingField<unknown>, info: ModelInfo, task: TaskType): unknown {
  const nothing: GivenSettings = {};
  return row.initial?.(info, task, nothing) ?? row.neutral ?? null;
}

function accepts(
  { check }: SettingField<unknown>,
  name: string,
  value: unknown,
  info: ModelInfo,
): boolean {
  try {
    check(value, name, info, {});
    return true;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}
