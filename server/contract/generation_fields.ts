/** The fields of images, edits and videos: names, types, and which of them do nothing. */

import { z } from "zod";
import { type Field, httpNames } from "../../generation/field_values.ts";
import { SETTING_FIELDS } from "../../generation/fields.ts";
import type { FieldTable } from "./fields.ts";
import { NOT_AN_INTEGER, NOT_INTEGERS } from "./validate.ts";

type Nullish<T extends z.ZodType> = z.ZodOptional<z.ZodNullable<T>>;

/** What a schema of one or several numbers says of anything else. */
const NOT_NUMBERS = "Input should be a valid number or a list of valid numbers";

/** Most UTF-16 units of a name or path; records and lists repeat it. */
export const MAX_TEXT_LENGTH = 4096;

/** A name, path or other short text, null or absent. */
export const text = (): Nullish<z.ZodString> => z.string().max(MAX_TEXT_LENGTH).nullish();
/** A text of any length, null or absent: it has limits of its own where it is read. */
export const longText = (): Nullish<z.ZodString> => z.string().nullish();
export const integer = (): Nullish<z.ZodInt> => z.int(NOT_AN_INTEGER).nullish();
export const number = (): Nullish<z.ZodNumber> => z.number().nullish();
export const stringOrList = (): Nullish<
  z.ZodUnion<readonly [z.ZodString, z.ZodArray<z.ZodString>]>
> =>
  z.union(
    [z.string(), z.array(z.string())],
    "Input should be a valid string or a list of valid strings",
  ).nullish();
export const flag = (): Nullish<z.ZodBoolean> => z.boolean().nullish();
export const dictionary = (): Nullish<z.ZodRecord<z.ZodString, z.ZodUnknown>> =>
  z.record(z.string(), z.unknown()).nullish();

/** A LoRA that a generation names; a misspelt key would go unnoticed. */
const loraItem = z.strictObject({
  nickname: text(),
  path: text(),
  strength: number(),
  target: text(),
  alpha: integer(),
  merge_mode: text(),
});

export type LoraItem = z.output<typeof loraItem>;

/** Schemas of values by the kind of a row. */
const SCHEMAS = {
  text: longText,
  integer,
  number,
  flag,
  texts: stringOrList,
  integers: () => z.union([z.int(), z.array(z.int())], NOT_INTEGERS).nullish(),
  numbers: () => z.union([z.number(), z.array(z.number())], NOT_NUMBERS).nullish(),
} as const satisfies Readonly<Record<Field["kind"], () => z.ZodType>>;

function schemasOf(rows: Readonly<Record<string, Field>>): Record<string, z.ZodType> {
  return Object.fromEntries(
    Object.entries(rows).flatMap(([name, row]) =>
      httpNames(name, row).map((http) => [http, SCHEMAS[row.kind]()])
    ),
  );
}

/** Fields that steer any generation. */
export const GENERATION_FIELDS = {
  // Documents list fields in this order.
  prompt: z.string(),
  wildcards: flag(),
  model: text(),
  n: integer(),
  size: text(),
  width: integer(),
  height: integer(),
  seed: SCHEMAS.integers(),
  ...schemasOf(SETTING_FIELDS),
  generator_device: text(),
  quality: text(),
  output_quality: text(),
  output_compression: integer(),
  enhance_prompt: flag(),
  task_type: text(),
  fit: text(),
  webhook_url: text(),
  service_tier: text(),
  loras: z.array(loraItem).nullish(),
};

/** Fields that clients may send with any generation and that change nothing. */
export const IDLE_FIELDS = {
  user: text(),
  enable_teacache: flag(),
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

/** Values at which a field of {@link IDLE_FIELDS} asks for nothing. */
export const NEUTRAL: Readonly<Record<string, unknown>> = {
  enable_teacache: false,
  progressive_mode: "fullres",
  enable_cache_dit: false,
  dpcache_budget: 0,
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

export function fieldTable(
  effective: readonly string[],
  idle: readonly string[],
  neutral: Readonly<Record<string, unknown>> = NEUTRAL,
): FieldTable {
  return {
    known: [...effective, ...idle],
    withoutEffect: new Map(idle.map((name) => [name, neutral[name]])),
  };
}

const IMAGE_FIELDS = {
  ...GENERATION_FIELDS,
  response_format: text(),
  background: text(),
  output_format: text(),
  stream: flag(),
  partial_images: integer(),
  control: stringOrList(),
  reference: stringOrList(),
  reference_mask: stringOrList(),
};

const IDLE_IMAGE_FIELDS = {
  ...IDLE_FIELDS,
  style: text(),
  moderation: text(),
  safety_identifier: text(),
  num_frames: integer(),
};

const NEUTRAL_IMAGE = { ...NEUTRAL, style: "vivid", moderation: "auto", num_frames: 1 };

/** The body of an image generation; unknown fields are kept. */
export const imageGenerationSchema: z.ZodObject<
  typeof IMAGE_FIELDS & typeof IDLE_IMAGE_FIELDS,
  z.core.$loose
> = z.looseObject({ ...IMAGE_FIELDS, ...IDLE_IMAGE_FIELDS });

/** Which fields of a generation are known, and which of them do nothing. */
export const imageFieldTable: FieldTable = fieldTable(
  Object.keys(IMAGE_FIELDS),
  Object.keys(IDLE_IMAGE_FIELDS),
  NEUTRAL_IMAGE,
);

/** Fields that only edits have: images, in a form as files or texts. */
const EDIT_FIELDS = {
  image: stringOrList(),
  url: stringOrList(),
  mask: longText(),
};

/** The fields of an image edit as a form has them; unknown ones are kept. */
export const imageEditSchema: z.ZodObject<
  typeof IMAGE_FIELDS & typeof EDIT_FIELDS & typeof IDLE_IMAGE_FIELDS,
  z.core.$loose
> = z.looseObject({ ...IMAGE_FIELDS, ...EDIT_FIELDS, ...IDLE_IMAGE_FIELDS });

/** Which fields of an edit are known, and which of them do nothing. */
export const imageEditFieldTable: FieldTable = fieldTable(
  [...Object.keys(IMAGE_FIELDS), ...Object.keys(EDIT_FIELDS)],
  [...Object.keys(IDLE_IMAGE_FIELDS), "input_fidelity"],
  NEUTRAL_IMAGE,
);

const referenceSchemas = [z.string(), z.object({ image_url: z.string() })] as const;

const VIDEO_FIELDS = {
  ...GENERATION_FIELDS,
  num_outputs_per_prompt: integer(),
  seconds: z.union([z.int(), z.string()], NOT_AN_INTEGER).nullish(),
  fps: integer(),
  num_frames: integer(),
  x264_preset: text(),
  enable_audio: flag(),
  output_format: text(),
  fragmented: flag(),
  input_reference: z.union(
    [...referenceSchemas, z.array(z.union(referenceSchemas))],
    "Input should be a valid string or a dictionary with image_url",
  ).nullish(),
  "input_reference[image_url]": longText(),
  reference_url: longText(),
  video_reference: longText(),
  video_url: longText(),
  video: longText(),
  last_image: longText(),
  mask: longText(),
  audio: longText(),
  reference: stringOrList(),
};

/** The body of a video request; unknown fields are kept. */
export const videoSchema: z.ZodObject<
  typeof VIDEO_FIELDS & typeof IDLE_FIELDS,
  z.core.$loose
> = z.looseObject({ ...VIDEO_FIELDS, ...IDLE_FIELDS });

export type VideoBody = z.output<typeof videoSchema>;

/** Which fields are known, and which of them do nothing. */
export const videoFieldTable: FieldTable = fieldTable(
  Object.keys(VIDEO_FIELDS),
  Object.keys(IDLE_FIELDS),
);

/** The fields that name an image or video, in the order in which they are looked at. */
export const VIDEO_SOURCE_FIELDS = [
  "input_reference",
  "input_reference[image_url]",
  "reference_url",
  "video_reference",
  "video_url",
  "video",
  "last_image",
] as const;
