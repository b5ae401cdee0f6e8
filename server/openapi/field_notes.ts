/** What the fields of requests mean, in one sentence each, and which values they take. */

import { httpNames } from "../../generation/field_values.ts";
import { FITS, REQUEST_FIELDS, SETTING_FIELDS } from "../../generation/fields.ts";
import { MERGE_MODES } from "../../generation/lora_words.ts";
import { QUALITY_PRESETS } from "../../media/encode.ts";
import { X264_PRESETS } from "../../media/video/quality.ts";
import { DEVICES, MAX_OUTPUTS, QUALITIES, SERVICE_TIERS } from "../contract/generation.ts";
import { BACKGROUNDS, FORMATS, MAX_PREVIEWS } from "../images/image_request.ts";
import { VIDEO_TYPES } from "../videos/video_request.ts";

/** Texts of fields by name, without the fields that have no effect. */
export const FIELD_NOTES: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    Object.entries({ ...REQUEST_FIELDS, ...SETTING_FIELDS }).flatMap(([name, row]) =>
      httpNames(name, row).map((http) => [http, row.text])
    ),
  ),
  model:
    "Name of one of the server's models (default: the first); a server started with one also takes OpenAI's model names",
  n: "Number of results",
  num_outputs_per_prompt: "Same as `n`; overrides it",
  size:
    "`<width>x<height>` in pixels (default: the model's own; of edits, the shape of the first image)",
  generator_device: "Accepted without effect: the noise is always that of `cpu`",
  quality:
    "Precision: `exact` (f32), `lossless` (default: f16 factors, f32 sums) or `high` (int8, short sums in f16 and step reuse, where faster); " +
    "other servers' values mean `auto`",
  output_quality: "Quality of JPEG, WebP and MP4 files",
  output_compression: "0 (small) to 100 (best); overrides `output_quality`",
  enhance_prompt: "Rewrite the prompt first, if the server has a prompt enhancer",
  loras:
    "LoRA adapters of this request, in the order of use; they replace the adapters set on the server. Each has a `path` or " +
    "the `nickname` of a set adapter, and `strength`, `target`, `alpha`, `merge_mode`; an empty list means none",
  webhook_url:
    "Address that gets a message when the job ends, signed as Standard Webhooks; the server needs a webhook secret",
  service_tier: "`flex` lets other clients' jobs go first, for at most ten minutes",
  response_format: "By default the answer has the file and, if the server keeps it, a link",
  background: "`transparent` chooses PNG; in a JPEG what is transparent lies on white",
  output_format:
    "Format of the file (default: JPEG, PNG for layers); of videos `mp4` (default), or `wav` for the sound alone that a model makes",
  stream: "Answer with server-sent events while the images are made",
  partial_images: "Number of previews of each image, in a stream or in the events of a job",
  image: "Image to edit",
  url: "Address of an image to edit: http, https or data",
  seconds: "Duration in whole seconds",
  x264_preset: "Effort of the H.264 encoder (default: `fast`)",
  enable_audio:
    "Sound, of a model that makes it, else of the input video where it is not continued (default: true)",
  fragmented:
    "Write a file that plays while it is written; `/content` then answers before its end (default: false)",
  input_reference:
    "Image or video to start from: a file, or an address; several images, in the order of the frames, for models that take them",
  "input_reference[image_url]": "Address of an image to start from",
  reference_url: "Address of an image or video to start from",
  video_reference: "Video to start from: a file, or an address",
  video_url: "Address of a video to start from",
  video: "Same as `video_reference`",
  last_image: "Last frame, for models that take one: a file, or an address",
  control: `${REQUEST_FIELDS.control.text}; a file or an address`,
  audio:
    "Sound that the video follows, and has (LTX-2): a file, or an address; WAV, MP3, FLAC and others, or a video",
  mask: `${REQUEST_FIELDS.mask.text}; a file or an address`,
  reference_mask: `${REQUEST_FIELDS.referenceMask.text}; files, or addresses`,
  reference: "Reference images of what to show (Wan VACE, Krea 2, IP-Adapter): files, or addresses",
};

/** Texts of fields in requests about LoRAs, by name. */
export const LORA_FIELD_NOTES: Readonly<Record<string, string>> = {
  lora_nickname: "Name of the LoRA from now on, or a list of names; required",
  lora_path: "File or folder that the server may read, or a hub id: `org/name` or " +
    "`org/name:file.safetensors`; one for each nickname. A known nickname needs none",
  target: "`all` (default), `transformer`, `transformer_2`, `critic` or `text_encoder`; " +
    "one for all LoRAs, or for `set_lora` one for each",
  strength: "0 leaves the model as it is, 1 (default) is as trained; one for all LoRAs, or " +
    "for `set_lora` one for each",
  merge_mode: "`auto` (default), `merge` into the weights, or `dynamic` beside them",
  lora_alpha: "Replaces the alpha of the file; one for all LoRAs, or one for each",
  strict: "Fail if a key of the file fits no layer",
};

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

/** Values of fields of videos that differ from {@link FIELD_VALUES}. */
export const VIDEO_FIELD_VALUES: Readonly<Record<string, FieldValues>> = {
  output_format: { enum: Object.keys(VIDEO_TYPES) },
};
