/**
 * The fields of an image generation: names and types, and which of them do nothing here.
 *
 * @module
 */

import { z } from "zod";
import type { FieldTable } from "./fields.ts";
import { NOT_AN_INTEGER } from "./validate.ts";

const text = () => z.string().nullish();
const integer = () => z.int(NOT_AN_INTEGER).nullish();
const number = () => z.number().nullish();
const flag = () => z.boolean().nullish();
const dictionary = () => z.record(z.string(), z.unknown()).nullish();

/** Fields that steer the generation or its answer. */
const EFFECTIVE = {
  prompt: z.string(),
  model: text(),
  n: integer(),
  size: text(),
  width: integer(),
  height: integer(),
  response_format: text(),
  quality: text(),
  background: text(),
  output_format: text(),
  seed: z.union([z.int(), z.array(z.int())]).nullish(),
  num_inference_steps: integer(),
  guidance_scale: number(),
  negative_prompt: text(),
  generator_device: text(),
  output_quality: text(),
  output_compression: integer(),
  enhance_prompt: flag(),
  task_type: text(),
  stream: flag(),
};

/** Fields that clients may send and that change nothing. */
const WITHOUT_EFFECT = {
  style: text(),
  user: text(),
  moderation: text(),
  safety_identifier: text(),
  partial_images: integer(),
  true_cfg_scale: number(),
  enable_teacache: flag(),
  max_sequence_length: integer(),
  flow_shift: number(),
  num_frames: integer(),
  enable_upscaling: flag(),
  upscaling_scale: integer(),
  progressive_mode: text(),
  progressive_levels: integer(),
  progressive_delta: number(),
  diffusers_kwargs: dictionary(),
  enable_cache_dit: flag(),
  cache_dit_params: dictionary(),
  cfg_gate_step: number(),
  attention_backend_override: text(),
  skip_softmax_params: dictionary(),
  dpcache_budget: integer(),
};

/** Values at which a field without effect asks for nothing. */
const NEUTRAL: Readonly<Partial<Record<keyof typeof WITHOUT_EFFECT, unknown>>> = {
  style: "vivid",
  moderation: "auto",
  partial_images: 0,
  enable_teacache: false,
  num_frames: 1,
  enable_upscaling: false,
  progressive_mode: "fullres",
  enable_cache_dit: false,
  dpcache_budget: 0,
};

/** The body of an image generation; unknown fields are kept. */
export const imageGenerationSchema: z.ZodObject<
  typeof EFFECTIVE & typeof WITHOUT_EFFECT,
  z.core.$loose
> = z.looseObject({ ...EFFECTIVE, ...WITHOUT_EFFECT });

/** A body of the right types. */
export type ImageGenerationBody = z.output<typeof imageGenerationSchema>;

/** Which fields are known, and which of them do nothing. */
export const imageFieldTable: FieldTable = {
  known: Object.keys(imageGenerationSchema.shape),
  withoutEffect: new Map(
    (Object.keys(WITHOUT_EFFECT) as (keyof typeof WITHOUT_EFFECT)[])
      .map((name) => [name, NEUTRAL[name]]),
  ),
};

/** Fields in which the reference takes paths on the server; here clients may not name any. */
export const PATH_FIELDS: readonly string[] = [
  "output_path",
  "output_file_name",
  "output_file_path",
  "perf_dump_path",
  "image_path",
  "video_path",
  "upscaling_model_path",
  "frame_interpolation_model_path",
];
