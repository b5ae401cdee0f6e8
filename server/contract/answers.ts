/** What answers look like: the routes' types and the document follow from these schemas; tests hold real answers against them. */

import { z } from "zod";
import { PART_KINDS } from "../../hub/catalogue_parts.ts";
import { TASK_TYPES } from "../../generation/task.ts";

const unix = (what: string) => z.int().describe(`${what}, in Unix seconds`);
const tasks = z.enum(TASK_TYPES);
const precision = z.string().describe("`fp16`, `bf16`, `fp32`, or a format such as `q8_0`");

const validationIssue = z.strictObject({
  type: z.string().describe("Kind of the mistake, such as `missing`"),
  loc: z.array(z.union([z.string(), z.int()])).describe(
    "Where it is: `body` or `query`, then field names",
  ),
  msg: z.string(),
  input: z.unknown().describe("What was sent there, shortened"),
});

const error = z.object({
  error: z.strictObject({
    message: z.string().describe("One sentence"),
    type: z.string().describe("Such as `invalid_request_error`"),
    param: z.string().nullable().describe("The field that is wrong"),
    code: z.string().nullable().describe("A word for programs"),
  }),
  detail: z.union([z.string(), z.array(validationIssue)]).describe("The text, or a 422's list"),
  problems: z.array(z.string()).optional().describe("All that is wrong with a LoRA"),
});

const steeringPart = z.strictObject({
  id: z.string(),
  in_use: z.boolean().describe("Whether the model was opened with it"),
});

const model = z.strictObject({
  id: z.string().describe("The model's public name"),
  object: z.literal("model"),
  created: unix("Now"),
  owned_by: z.literal("denoise"),
  root: z.string().describe("As `id`"),
  parent: z.null(),
  max_model_len: z.null(),
  num_gpus: z.int(),
  state: z.enum(["loaded", "loading", "unloaded", "failed"]).describe(
    "Whether it is on the device",
  ),
  task_type: tasks.describe("The default task"),
  supported_task_types: z.array(tasks),
  inpainting: z.strictObject({ strength: z.number() }).nullable().describe(
    "Where edits take a `mask`: the strength of those that say none",
  ),
  takes_control: z.boolean().describe("Whether requests may bring a `control` picture"),
  controls_inpainting: z.boolean().describe(
    "Whether a ControlNet may see the image without what a mask redraws, `control_type: inpaint`",
  ),
  max_controls: z.int().describe("Most control pictures of a request, where it takes some"),
  ip_adapters: z.array(z.string()).describe("What `ip_adapter_name` may be"),
  control_nets: z.array(z.strictObject({
    name: z.string().describe("What `control_net` may be"),
    modes: z.array(z.string()).nullable().describe(
      "What `control_mode` may be, where the ControlNet asks what its picture shows",
    ),
  })),
  parts: z.strictObject({
    control_nets: z.array(steeringPart),
    ip_adapters: z.array(steeringPart),
    max_control_nets: z.int().describe("How many it may be opened with"),
    max_ip_adapters: z.int().describe("How many it may be opened with"),
  }).describe(
    "ControlNets and IP-Adapters of this machine that it takes, by their names in the catalogue",
  ),
  native_sides: z.strictObject({ least: z.int(), most: z.int() }).nullable().describe(
    "Shortest and longest side that the model was made for; results of more than twice the pixels of the longest " +
      "squared are drawn with such sides and enlarged",
  ),
  dit_precision: precision,
  vae_precision: precision,
  pipeline_name: z.string(),
  pipeline_class: z.string(),
  sizes: z.array(z.string()).describe("`<width>x<height>` of common shapes, the model's own first"),
  defaults: z.strictObject({ size: z.string(), num_frames: z.int(), fps: z.number() }).describe(
    "What a request gets that says nothing",
  ),
  limits: z.strictObject({
    size_multiple: z.int().describe("Sides are multiples of it"),
    max_pixels: z.int(),
    size_is_budget: z.boolean().describe("Results have the shape of the given image or video"),
    frame_multiple: z.int().describe("Videos have one frame more than a multiple of it"),
    max_frames: z.int(),
    min_images: z.int().describe("Fewest images of a task that starts from some"),
    max_images: z.int(),
    max_edit_images: z.int(),
    max_references: z.int().describe("Most images of what shall be seen in a result"),
    takes_video_masks: z.boolean(),
  }),
  gives_audio: z.boolean().describe("Whether its videos have sound that it makes"),
  takes_audio: z.boolean().describe("Whether its videos can follow a sound"),
  settings: z.array(z.strictObject({
    name: z.string().describe("As requests call it"),
    description: z.string(),
    type: z.enum(["text", "integer", "number", "texts", "integers", "numbers", "flag"]),
    choices: z.array(z.string()).optional(),
    minimum: z.number().optional(),
    maximum: z.number().optional(),
    defaults: z.partialRecord(tasks, z.unknown()).describe(
      "By task that takes it: what a request gets that leaves it out, null for what the model decides",
    ),
  })).describe("Fields of requests that mean something to this model"),
  takes_loras: z.boolean(),
  loras: z.array(z.string()).describe("LoRAs that have a name here"),
  lora_defaults: z.array(z.strictObject({
    pattern: z.string().describe(
      "A regular expression for the LoRA's name, without regard to case; its group is the number of steps",
    ),
    defaults: z.record(z.string(), z.unknown()),
  })).describe(
    "What a request with such a LoRA gets that says nothing else; of several that fit the first counts",
  ),
  can_enhance: z.boolean().describe("Whether prompts can be rewritten"),
});

const flatModel = z.strictObject({
  model_path: z.string(),
  num_gpus: z.int(),
  task_type: tasks,
  supported_task_types: z.array(tasks),
  dit_precision: precision,
  vae_precision: precision,
  vae_decode_precision: z.null(),
  pipeline_name: z.string(),
  pipeline_class: z.string(),
});

const modelInfo = z.strictObject({
  model_path: z.string(),
  is_generation: z.literal(true),
  model_type: z.literal("diffusion"),
  architectures: z.array(z.string()),
  has_image_understanding: z.boolean(),
  has_audio_understanding: z.literal(false),
  task_type: tasks,
  supported_task_types: z.array(tasks),
  output_types: z.array(z.enum(["IMAGE", "VIDEO"])),
  is_image_gen: z.boolean(),
  video_encoder: z.string().describe("What writes video files"),
});

const worker = z.strictObject({
  id: z.string().describe("Unique among the workers of all servers"),
  object: z.literal("worker"),
  host: z.string().describe("Name of its machine"),
  version: z.string().describe("Version of the program that it runs"),
  gpu: z.int().describe("Its number on that machine"),
  device: z.string().nullable().describe("The adapter as its driver names it, where that is known"),
  state: z.enum(["idle", "busy", "loading", "lost"]).describe(
    "`loading`: it brings a model in, or is started again; `lost`: it is given no more work",
  ),
  models: z.array(z.strictObject({
    id: z.string(),
    state: z.enum(["loaded", "loading", "unloaded", "failed"]),
  })).describe("What it may be given"),
  job: z.string().nullable().describe("The job that it works for"),
  jobs_done: z.int().describe("Jobs that it was given and that have ended"),
  outputs_done: z.int().describe(
    "Images and videos that it made, those of other workers' jobs, too",
  ),
  utilisation: z.number().describe("Share of the last minute in which it was at work"),
  last_error: z.string().nullable().describe("What went wrong on it most lately"),
});

const cutPrompts = z.array(z.strictObject({
  prompt: z.enum(["prompt", "negative_prompt"]),
  tokens: z.int().describe("Tokens that it has"),
  read: z.int().describe("Tokens that are read, from the first on; 0 without guidance"),
  unread: z.string().describe("The first words that are not read"),
})).describe("Prompts that were not read as a whole");

const images = z.strictObject({
  id: z.string().describe("`img_…`"),
  created: unix("When it was answered"),
  data: z.array(z.strictObject({
    b64_json: z.string().nullable().describe("The file in base64"),
    url: z.string().nullable().describe(
      "Where the file is: in a cloud, or relative to this server without `--public-url`",
    ),
    revised_prompt: z.string().describe("The prompt that the model read"),
    seed: z.int().describe("Makes the same image again"),
    file_path: z.string().nullable().describe("Where the file is on the server"),
    resize: z.null(),
  })),
  peak_memory_mb: z.number().nullable().describe("Most device memory taken, in MiB"),
  inference_time_s: z.number().nullable().describe("In seconds"),
  cut_prompts: cutPrompts.optional(),
  usage: z.null(),
});

const videoStatus = z.enum([
  "queued",
  "in_progress",
  "completed",
  "failed",
  "cancelled",
  "deleted",
]);

const video = z.strictObject({
  id: z.string().describe("`video_…`"),
  object: z.literal("video"),
  model: z.string(),
  status: videoStatus,
  progress: z.int().min(0).max(100).describe("Work that the GPU has finished, in percent"),
  created_at: unix("When it was queued"),
  prompt: z.string().nullable().describe("In lists its beginning; null where it is another key's"),
  size: z.string().describe("`<width>x<height>`"),
  seconds: z.string().describe("Whole seconds"),
  quality: z.literal("standard"),
  url: z.string().nullable().describe("Where the file is when it is kept in a cloud"),
  remixed_from_video_id: z.null(),
  completed_at: unix("When it was completed").nullable(),
  expires_at: unix("When the file will be removed").nullable(),
  error: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
  file_path: z.string().nullable().describe("Where the file is on the server"),
  file_paths: z.array(z.string()).nullable().describe("Of every video"),
  num_outputs: z.int().nullable(),
  peak_memory_mb: z.number().nullable(),
  inference_time_s: z.number().nullable(),
  cut_prompts: cutPrompts.optional(),
  action: z.null(),
  revised_prompt: z.string().nullable().describe(
    "The prompt when it was rewritten; null for others",
  ),
  seeds: z.array(z.int()).describe(
    "One for each video; they make the same ones again; empty for other keys",
  ),
});

const deletedVideo = video.extend({ deleted: z.literal(true) });

const job = z.strictObject({
  id: z.string(),
  object: z.literal("job"),
  kind: z.enum(["image", "video"]),
  status: videoStatus.exclude(["deleted"]),
  progress: z.int().min(0).max(100),
  place: z.int().nullable().describe("Place in the queue, from 1; null for what does not wait"),
  created_at: unix("When it was queued"),
  started_at: unix("When the GPU began").nullable(),
  ended_at: unix("When it ended").nullable(),
  error: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
  prompt: z.string().nullable().describe(
    "Its beginning; null, as all that follows, where the job is of another key",
  ),
  model: z.string().nullable().describe("Public name of the model that made it"),
  task_type: tasks.nullable(),
  size: z.string().nullable().describe("`<width>x<height>`"),
  loras: z.array(z.string()).nullable().describe("LoRAs of the request, by path or name"),
  outputs: z.array(z.strictObject({
    index: z.int().describe("Which of the job's results it is, from 0, whatever was deleted"),
    url: z.string().describe("In a cloud, or relative to this server without `--public-url`"),
    content_type: z.string(),
    bytes: z.int(),
    seed: z.int().nullable().describe("Makes it again"),
    prompt: z.string().optional().describe("Beginning of what was drawn, with `wildcards`"),
  })).nullable().describe("What came of it"),
  cut_prompts: cutPrompts.optional(),
});

const wholeJob = job.extend({
  request: z.record(z.string(), z.unknown()).nullable().describe(
    "What was asked for, with the names of requests and the model's own values; `input_images`, " +
      "`input_mask`, `input_control`, `input_references`, `input_video` and `input_audio` tell what it brought",
  ),
  inputs: z.array(z.strictObject({
    field: z.string().describe("The field that it came in"),
    url: z.string().describe("Relative to this server without `--public-url`"),
    content_type: z.string(),
    bytes: z.int(),
  })).nullable().describe(
    "Files that a completed request brought, in its order; empty with `--no-keep-inputs`",
  ),
});

const loraMode = z.enum(["merged", "dynamic"]).describe("Written into the weights, or beside them");

const loraReport = {
  mode: loraMode,
  dialect: z.string().describe("How the file's naming is called"),
  note: z.string().nullable().describe("Why it is not brought in as asked"),
  matched_layers: z.int().min(1),
  unmatched_keys: z.array(z.string()).describe("Keys of the file that fit no layer"),
};

const loraChange = z.strictObject({
  status: z.literal("ok"),
  message: z.string().describe("What was done"),
  adapters: z.array(z.strictObject({
    nickname: z.string(),
    path: z.string().describe("As it was given"),
    target: z.string().describe("The component that it changes"),
    strength: z.number(),
    ...loraReport,
  })).describe("What is in use now on the components that were named, in order"),
});

const loraList = z.strictObject({
  loaded_adapters: z.array(z.strictObject({ nickname: z.string(), path: z.string() })),
  active: z.record(
    z.string(),
    z.array(z.strictObject({
      nickname: z.string(),
      path: z.string(),
      merged: z.boolean(),
      mode: loraMode,
      strength: z.number(),
    })),
  ).describe("By component, in the order in which they are applied"),
  num_lora_layers_with_weights: z.record(z.string(), z.int()).describe(
    "Layers that active LoRAs change, by component",
  ),
});

const catalogueModel = z.strictObject({
  id: z.string().describe("What `model` of a pull and of requests takes"),
  object: z.literal("catalogue.model"),
  title: z.string(),
  family: z.string(),
  good_for: z.string().describe("What people choose it for"),
  makes: z.enum(["images", "videos"]),
  tasks: z.array(tasks),
  licence: z.string(),
  gated: z.boolean().describe("Whether its terms are to be accepted on its page, by `url`"),
  non_commercial: z.boolean(),
  url: z.string().describe("Its page at the hub"),
  state: z.enum(["absent", "partial", "present"]).describe("What of it is on this machine"),
  precision: z.string().describe(
    "That which is here, or would be fetched: `bf16`, or such as `q8_0`",
  ),
  precisions: z.array(z.string()).describe("What may follow the id: `z-image-turbo:q4_k`"),
  download_bytes: z.int().describe("About; a pull tells it exactly"),
  cached_bytes: z.int().describe("What is here of it"),
  fits: z.boolean().nullable().describe(
    "Whether its transformer stays on the GPU; others run by streaming, slowly. Null until the GPU is known",
  ),
  measured: z.strictObject({
    seconds: z.number(),
    size: z.string().describe("`<width>x<height>`"),
  }).nullable().describe(
    "What the latest result of this server with it took; null before the first",
  ),
  first_choice: z.boolean().describe("Set for one: the model to begin with"),
});

const cataloguePart = z.strictObject({
  id: z.string().describe("What `model` of a pull takes"),
  object: z.literal("catalogue.part"),
  part: z.enum(PART_KINDS),
  families: z.array(z.string()).describe("What models it is for; empty for all"),
  automatic: z.boolean().describe(
    "Whether models that it fits use it once it is here; others are named when the server starts",
  ),
  licence: z.string(),
  url: z.string().describe("Its page at the hub"),
  state: z.enum(["absent", "present"]),
  download_bytes: z.int().describe("About"),
});

const catalogue = z.strictObject({
  object: z.literal("list"),
  can_pull: z.boolean().describe("Whether this client may pull and delete models"),
  has_token: z.boolean().describe(
    "Whether the server has a token, without which gated models are refused",
  ),
  device_bytes: z.int().nullable().describe("Memory of the GPU, if it is known"),
  is_software: z.boolean().nullable().describe(
    "Whether there is no GPU but a driver that computes on the CPU; null until that is known",
  ),
  free_bytes: z.int().nullable().describe("What the disk of the cache has free"),
  data: z.array(catalogueModel),
  parts: z.array(cataloguePart).describe("Parts of models: ControlNets, upscalers and others"),
});

const modelPull = z.strictObject({
  id: z.string(),
  object: z.literal("model.pull"),
  model: z.string(),
  status: z.enum(["queued", "running", "stopped", "completed", "failed"]),
  completed_bytes: z.int().describe("What is here, earlier attempts included"),
  total_bytes: z.int().describe("0 until the hub has told it"),
  bytes_per_second: z.int(),
  eta_s: z.int().nullable(),
  message: z.string().nullable().describe("What is fetched now, in a sentence"),
  error: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
  created_at: unix("When it was asked for"),
});

export const ANSWERS = {
  Error: error,
  Health: z.strictObject({
    status: z.literal("ok"),
    model: z.literal("unloaded").optional().describe("The next request loads the model again"),
  }),
  Model: model,
  ModelList: z.strictObject({ object: z.literal("list"), data: z.array(model) }),
  FlatModel: flatModel,
  ModelInfo: modelInfo,
  ModelPath: z.strictObject({ model_path: z.string() }),
  ServerInfo: z.strictObject({
    model_path: z.string(),
    served_model_name: z.string(),
    tp_size: z.null(),
    dp_size: z.literal(1),
    version: z.string(),
  }),
  Images: images,
  Video: video,
  DeletedVideo: deletedVideo,
  VideoList: z.strictObject({
    data: z.array(video),
    object: z.literal("list"),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  }),
  LoraChange: loraChange,
  KeptLora: z.strictObject({
    path: z.string().describe("What `loras` of requests call it"),
    adapters: z.array(z.strictObject(loraReport)).describe("What it would change"),
  }),
  LoraList: loraList,
  JobList: z.strictObject({
    object: z.literal("list"),
    running: z.int(),
    waiting: z.int(),
    seconds_per_job: z.number().describe("Mean of the last jobs"),
    data: z.array(job),
    has_more: z.boolean().describe("Whether more have ended"),
  }),
  Catalogue: catalogue,
  ModelPull: modelPull,
  ModelPullList: z.strictObject({ object: z.literal("list"), data: z.array(modelPull) }),
  DeletedModel: z.strictObject({
    id: z.string(),
    object: z.literal("model"),
    deleted: z.literal(true),
    freed_bytes: z.int(),
  }),
  WorkerList: z.strictObject({ object: z.literal("list"), data: z.array(worker) }),
  Job: wholeJob,
  DeletedJob: wholeJob.extend({ deleted: z.literal(true) }),
  JobWithoutOutput: wholeJob.extend({
    deleted: z.boolean().describe("Whether the job went, too, as it was its last result"),
  }),
} satisfies Readonly<Record<string, z.ZodType>>;

export type AnswerName = keyof typeof ANSWERS;

/** What a schema describes, as nobody changes it. */
type Answer<Schema extends z.ZodType> = DeepReadonly<z.output<Schema>>;
type DeepReadonly<T> = T extends object ? { readonly [K in keyof T]: DeepReadonly<T[K]> } : T;

/** An entry of a 422's `detail`, as FastAPI writes it. */
export type ValidationIssue = Answer<typeof validationIssue>;
/** What every failed request is answered with: generic clients read `error`, those of the reference `detail`. */
export type ErrorBody = Answer<typeof error>;
export type CatalogueAnswer = Answer<typeof catalogue>;
export type ModelPull = Answer<typeof modelPull>;
export type ModelCard = Answer<typeof model>;
export type VideoRecord = Answer<typeof video>;
export type JobListItem = Answer<typeof job>;
/** A job with what was asked for. */
export type WholeJob = Answer<typeof wholeJob>;
