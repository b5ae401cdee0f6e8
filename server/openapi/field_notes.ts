/** What the fields of requests mean, in one sentence each. */

import { httpNames } from "../../generation/field.ts";
import { REQUEST_FIELDS, SETTING_FIELDS } from "../../generation/fields.ts";

/** Texts of fields by name; fields without effect are not here. */
export const FIELD_NOTES: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    Object.entries({ ...REQUEST_FIELDS, ...SETTING_FIELDS }).flatMap(([name, row]) =>
      httpNames(name, row).map((http) => [http, row.text])
    ),
  ),
  model:
    "Name of one of the server's models; the first when left out. Where there is one, the names of OpenAI's models do, too",
  n: "Number of results, 1 to 10",
  num_outputs_per_prompt: "As `n`, and wins over it",
  size: "`<width>x<height>` in pixels",
  generator_device: "Accepted; the noise is that of `cpu` whatever it says",
  quality:
    "`auto`, `exact`, `lossless`, `high` or `extra-high`: how freely it may be computed; `standard`, `hd`, " +
    "`low` and `medium` mean `auto`",
  output_quality:
    "`maximum`, `high`, `medium`, `low` or `default`: how well the file is kept; not of PNG",
  output_compression: "0 (small) to 100 (best); wins over `output_quality`",
  enhance_prompt: "Have the prompt rewritten first, where the server is set up for it",
  loras: "LoRA adapters for this request alone, in place of those that are set, in the order in " +
    "which they are applied: each with a `path` or the `nickname` of one that was set, and " +
    "`strength`, `target`, `alpha`, `merge_mode`; an empty list for none",
  webhook_url:
    "Address that is told of the job's end, signed as Standard Webhooks; where the server is set up for it",
  service_tier:
    "`flex` lets the jobs of others go first, for ten minutes at most; `auto` or `default`",
  response_format:
    "`url` or `b64_json`; left out, the answer has the file and, where it is kept, a link",
  background: "`auto`, `opaque` or `transparent`; the latter chooses PNG",
  output_format: "`png`, `jpeg`, `jpg` or `webp`",
  stream: "Answer with server-sent events as the images come",
  partial_images: "Previews of each image in a stream, or in the events of its job, 0 to 3",
  image: "Image to edit",
  url: "Address of an image to edit: http, https or data",
  seconds: "Duration in whole seconds",
  x264_preset: "Effort of the H.264 encoder, `ultrafast` to `placebo` (default `fast`)",
  enable_audio: "Whether the sound of a given video is kept (default true)",
  fragmented:
    "Whether the file plays while it is written: `/content` then answers before its end (default false)",
  input_reference: "Image or video to start from: a file, or an address",
  "input_reference[image_url]": "Address of an image to start from",
  reference_url: "Address of an image or video to start from",
  video_reference: "Video to start from: a file, or an address",
  video_url: "Address of a video to start from",
  video: "As `video_reference`, or an address",
  last_image: "Image to end with, where the model takes one: a file, or an address",
  control: `${REQUEST_FIELDS.control.text}: a file, or an address`,
  mask: `${REQUEST_FIELDS.mask.text}: a file, or an address`,
  reference: "Images of what shall be seen in the result: files, or addresses",
};

/** Texts of fields in requests about LoRAs, by name. */
export const LORA_FIELD_NOTES: Readonly<Record<string, string>> = {
  lora_nickname: "What the LoRA is called from now on, or a list of such names; required",
  lora_path: "File or folder that the server may read, or a hub id: `org/name` or " +
    "`org/name:file.safetensors`; one for each nickname. Not needed for a nickname that is known",
  target: "`all` (default), `transformer`, `transformer_2`, `critic` or `text_encoder`; " +
    "one for all LoRAs, or for `set_lora` one for each",
  strength: "0 leaves the model as it is, 1 (default) is as trained; one for all LoRAs, or " +
    "for `set_lora` one for each",
  merge_mode: "`auto` (default), `merge` into the weights, or `dynamic` beside them",
  lora_alpha: "Replaces the alpha of the file; one for all LoRAs, or one for each",
  strict: "Whether keys of the file that fit no layer are an error",
};
