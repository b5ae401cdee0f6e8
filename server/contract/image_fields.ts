/** The fields of image requests: names and types, and which of them do nothing here. */

import { z } from "zod";
import type { FieldTable } from "./fields.ts";
import {
  fieldTable,
  flag,
  GENERATION_FIELDS,
  IDLE_FIELDS,
  integer,
  longText,
  NEUTRAL,
  stringOrList,
  text,
} from "./generation_fields.ts";

const IMAGE_FIELDS = {
  ...GENERATION_FIELDS,
  response_format: text(),
  background: text(),
  output_format: text(),
  stream: flag(),
  partial_images: integer(),
  control: longText(),
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
