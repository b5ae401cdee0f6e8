/** What fields of requests may say, where that is the same for every model. */

import { httpNames, SETTING_FIELDS } from "../../generation/mod.ts";
import { FITS } from "../../generation/fields.ts";
import { MERGE_MODES } from "../../generation/lora_words.ts";
import { QUALITY_PRESETS } from "../../media/quality.ts";
import { X264_PRESETS } from "../../media/video/x264.ts";
import { DEVICES, MAX_OUTPUTS, QUALITIES, SERVICE_TIERS } from "../contract/generation.ts";
import { BACKGROUNDS, FORMATS, MAX_PREVIEWS } from "../images/image_output.ts";

/** Values of a field: a list of them, or a least and a greatest one. */
export type FieldValues =
  | { readonly enum: readonly string[] }
  | { readonly minimum?: number; readonly maximum?: number };

const COUNT = { minimum: 1, maximum: MAX_OUTPUTS };

/** Values of fields by name; those of all others depend on the model, or are free. */
export const FIELD_VALUES: Readonly<Record<string, FieldValues>> = {
  ...Object.fromEntries(
    Object.entries(SETTING_FIELDS).flatMap(([name, row]) =>
      httpNames(name, row).map((http) => [http, row.choices && { enum: row.choices }])
    ).filter(([, values]) => values !== undefined),
  ),
  quality: { enum: QUALITIES },
  fit: { enum: FITS },
  generator_device: { enum: DEVICES },
  service_tier: { enum: SERVICE_TIERS },
  response_format: { enum: ["url", "b64_json"] },
  background: { enum: BACKGROUNDS },
  output_format: { enum: Object.keys(FORMATS) },
  x264_preset: { enum: X264_PRESETS },
  merge_mode: { enum: MERGE_MODES },
  n: COUNT,
  num_outputs_per_prompt: COUNT,
  num_inference_steps: { minimum: 1 },
  output_quality: { enum: QUALITY_PRESETS },
  output_compression: { minimum: 0, maximum: 100 },
  partial_images: { minimum: 0, maximum: MAX_PREVIEWS },
};
