/** The fields of a video request: names and types, and which of them do nothing here. */

import { z } from "zod";
import type { FieldTable } from "./fields.ts";
import {
  fieldTable,
  flag,
  GENERATION_FIELDS,
  IDLE_FIELDS,
  integer,
  longText,
  stringOrList,
  text,
} from "./generation_fields.ts";
import { NOT_AN_INTEGER } from "./validate.ts";

const VIDEO_FIELDS = {
  ...GENERATION_FIELDS,
  num_outputs_per_prompt: integer(),
  seconds: z.union([z.int(), z.string()], NOT_AN_INTEGER).nullish(),
  fps: integer(),
  num_frames: integer(),
  x264_preset: text(),
  enable_audio: flag(),
  fragmented: flag(),
  input_reference: z.union(
    [z.string(), z.object({ image_url: z.string() })],
    "Input should be a valid string or a dictionary with image_url",
  ).nullish(),
  "input_reference[image_url]": longText(),
  reference_url: longText(),
  video_reference: longText(),
  video_url: longText(),
  video: longText(),
  last_image: longText(),
  mask: longText(),
  reference: stringOrList(),
};

/** The body of a video request; unknown fields are kept. */
export const videoSchema: z.ZodObject<
  typeof VIDEO_FIELDS & typeof IDLE_FIELDS,
  z.core.$loose
> = z.looseObject({ ...VIDEO_FIELDS, ...IDLE_FIELDS });

/** A body of the right types. */
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
