/** The flags of every command, as tables. */

import {
  address,
  choice,
  duration,
  flag,
  type FlagValues,
  integer,
  memory,
  off,
  on,
  onOff,
  positive,
  seconds,
  text,
  texts,
} from "../generation/flag.ts";
import { QUALITY_PRESETS } from "../media/quality.ts";
import { X264_PRESETS } from "../media/video/write.ts";
import { LOG_FORMATS } from "../server/log.ts";
import { LORA_FLAGS, SERVER_FLAGS } from "../server/settings.ts";
import { FIELD_FLAGS } from "./field_flags.ts";
import {
  gpuNumbers,
  lora,
  LORA_SYNTAX,
  pin,
  QUANTIZE_TYPES,
  quantizeType,
  tensorType,
} from "./flag_readers.ts";

const json = onOff("print JSON");

/** Which GPU is used, and through what. */
export const DEVICE_FLAGS = {
  powerPreference: choice(
    ["high-performance", "low-power"],
    "kind",
    "which GPU to use, if there are several",
  ),
  forceSoftware: onOff("use the software adapter even if there is a GPU", { flag: "--software" }),
  gpuBackend: choice(
    ["deno", "dawn", "auto"],
    "name",
    "WebGPU implementation: Deno's, Dawn's (if installed), or the faster one",
    { env: "DENOISE_GPU_BACKEND" },
  ),
};

/** How the memory of GPUs is used. */
export const MEMORY_FLAGS = {
  maxVramBytes: flag(memory, "memory", "GPU memory limit, such as 8G", { flag: "--max-vram" }),
  textEncoderCpuOffload: onOff("free the text encoder's GPU memory after use"),
  vaeCpuOffload: onOff("free the autoencoder's GPU memory after use"),
  pinCpuMemory: onOff("keep freed weights in host memory, for a fast return"),
  enableCfgParallel: onOff("use two GPUs for each guided request, one per prompt"),
  ulyssesDegree: flag(integer(1), "degree", "GPUs that share tokens and heads", { default: 1 }),
  ringDegree: flag(integer(1), "degree", "GPUs that share tokens and queries", { default: 1 }),
  splitLayers: flag(integer(1), "count", "GPUs that share the layers of the transformer"),
};

/** Parts of a model that come from elsewhere. */
export const PART_FLAGS = {
  transformer: flag(
    text,
    "path",
    "replaces the transformer: file, folder, hub id, org/name:file",
  ),
  transformer2: flag(text, "path", "replaces the low-noise transformer of models with two"),
  textEncoder: flag(text, "path", "replaces the text encoder"),
  textEncoder2: flag(text, "path", "replaces the second text encoder of models with two"),
  imageEncoder: flag(text, "path", "replaces the image encoder"),
  mmproj: flag(text, "path", "vision tower, for a text encoder in a GGUF file"),
  vae: flag(text, "path", "replaces the autoencoder"),
  tinyDecoder: flag(text, "path", "tiny decoder for previews and --decoder tiny"),
  controlnet: flag(
    text,
    "path",
    "ControlNet for --control: file, folder, hub id, org/name:file",
  ),
  upscaler: flag(text, "path", "Real-ESRGAN network for --enable-upscaling"),
  frameInterpolator: flag(text, "path", "RIFE network for --enable-frame-interpolation"),
  tokenizer: flag(text, "path", "replaces the tokenizer: folder, GGUF file or hub id"),
  tokenizer2: flag(text, "path", "replaces the tokenizer of the second text encoder"),
};

/** How a model is loaded. */
export const LOAD_FLAGS = {
  ...PART_FLAGS,
  ...DEVICE_FLAGS,
  ...MEMORY_FLAGS,
  tune: off("do not measure kernels at the first start on a GPU"),
};

/** Which GPUs models are kept on. */
const CARD_FLAGS = {
  numGpus: flag(integer(1), "count", "number of GPUs that share the work", { default: 1 }),
  gpus: flag(gpuNumbers, "numbers", "GPUs to use, by the numbers of doctor, such as 0,2"),
  pins: flag(
    pin,
    "name=numbers",
    "GPUs for one model, such as small=0,1; may be repeated",
    { flag: "--pin" },
  ),
};

/** What the members of a fleet share. */
const FLEET_FLAGS = {
  databaseUrl: flag(text, "url", "PostgreSQL database for the jobs of a fleet", {
    env: "DENOISE_DATABASE_URL",
  }),
  s3Bucket: flag(text, "name", "bucket for results; its key comes from the environment"),
  s3Endpoint: flag(text, "url", "address of an S3-compatible store (default: Amazon's)"),
  s3Region: flag(text, "region", "region of the bucket (default: us-east-1)"),
};

const models = choice(["all"], "which", "all: the bundled model and all models in the cache");
const logFormat = choice(LOG_FORMATS, "format", "sentences, or one JSON object per line", {
  default: "text",
});
const keepAliveMs = flag(
  seconds,
  "seconds",
  "unload an idle model after this time (default: never)",
  { flag: "--keep-alive" },
);

export const SERVE_FLAGS = {
  modelPath: flag(
    texts,
    "[name=]path",
    "folder, file, name, hub id or org/name:file; may be repeated, and requests pick a model",
    { default: [], shown: "bundled" },
  ),
  models,
  ...LOAD_FLAGS,
  ...FLEET_FLAGS,
  ...CARD_FLAGS,
  gpu: off("only take requests; the fleet's workers run the jobs"),
  servedModelName: flag(text, "name", "public name of the model (default: --model-id or path)"),
  modelId: flag(
    text,
    "id",
    "registered configuration, for a checkpoint that denoise cannot identify",
  ),
  ...SERVER_FLAGS,
  logFormat,
  lora: flag(lora, LORA_SYNTAX, "LoRA adapter to set at the start; may be repeated"),
  ...LORA_FLAGS,
  promptEnhancerConfig: flag(text, "file", "JSON file that enables enhance_prompt"),
  keepAliveMs,
};

export const WORKER_FLAGS = {
  ...FLEET_FLAGS,
  modelPath: flag(
    texts,
    "[name=]path",
    "folder, file, name, hub id or org/name:file; may be repeated",
    { default: [], shown: "bundled" },
  ),
  models,
  ...LOAD_FLAGS,
  ...CARD_FLAGS,
  servedModelName: flag(text, "name", "public name of the model (default: its path)"),
  outputPath: flag(text, "folder", "folder for results, shared by the whole fleet", {
    default: "outputs",
  }),
  graceMs: flag(duration, "duration", "how long jobs may run on after a signal to stop", {
    flag: "--drain",
    default: duration("25s"),
    shown: "25s",
  }),
  logFormat,
  loraFolders: LORA_FLAGS.loraFolders,
  allowHubLoras: onOff("let clients fetch LoRAs from the hub"),
  loraCacheBytes: LORA_FLAGS.loraCacheBytes,
  keepAliveMs,
};

/** The model, and how it is loaded. */
export const MODEL_FLAGS = {
  modelPath: flag(text, "path", "folder, file, name, hub id or org/name:file", {
    default: "bundled",
  }),
  ...LOAD_FLAGS,
};

const apiKey = flag(text, "key", "key of the server", { env: "DENOISE_API_KEY" });

export const GENERATE_FLAGS = {
  ...FIELD_FLAGS,
  ...MODEL_FLAGS,
  lora: flag(
    lora,
    LORA_SYNTAX,
    "LoRA adapter: a file, a folder or a hub id; may be repeated",
  ),
  from: flag(text, "file", "image whose recipe sets the other flags' defaults"),
  image: flag(texts, "file...", "image to edit or to start from; may be repeated"),
  reference: flag(
    texts,
    "file...",
    "reference image of what to show (Wan VACE); may be repeated",
  ),
  video: flag(
    text,
    "file",
    "input video: to change, to follow, to be controlled by, or to continue",
  ),
  audio: off("drop the sound of the input video"),
  output: flag(
    text,
    "file",
    "file to write: .png, .jpg, .webp, or .mp4 for a video (default: named for the prompt)",
  ),
  outputPath: flag(text, "folder", "folder for files that --output does not name", {
    default: "outputs",
  }),
  defaultSeed: flag(integer(0), "seed", "seed if --seed is omitted"),
  size: flag(text, "size", "width and height in pixels, such as 512x512"),
  numOutputs: flag(integer(1, 1000), "count", "number of images or videos", { default: 1 }),
  x264Preset: choice(X264_PRESETS, "preset", "effort of the video encoder (default: fast)"),
  fragmented: on("write videos that play while they are written"),
  outputQuality: choice(QUALITY_PRESETS, "preset", "quality of JPEG, WebP and MP4 files", {
    default: "default",
  }),
  outputCompression: flag(
    integer(0, 100),
    "value",
    "0 (small) to 100 (best); overrides --output-quality",
  ),
  preview: on("draw unfinished results in the terminal"),
  url: flag(address, "address", "let a running server do the work"),
  apiKey,
};

/** What reaches a running server. */
const CLIENT_FLAGS = {
  url: flag(address, "address", "address of the server", { default: "http://127.0.0.1:30000" }),
  apiKey,
};

export const PS_FLAGS = { json, ...CLIENT_FLAGS };

export const JOBS_FLAGS = {
  cancel: flag(text, "id", "job to stop"),
  limit: flag(integer(1, 200), "count", "maximum number of ended jobs in the list", {
    default: 20,
  }),
  json,
  ...CLIENT_FLAGS,
};

export const PLAN_FLAGS = {
  ...PART_FLAGS,
  size: flag(text, "size", "width and height in pixels, such as 1024x1024"),
  numFrames: flag(integer(1), "count", "frames of a video"),
  numInferenceSteps: flag(integer(1), "steps", "denoising steps"),
  json,
  ...DEVICE_FLAGS,
  ...MEMORY_FLAGS,
};

export const PULL_FLAGS = {
  include: flag(
    texts,
    "pattern...",
    "files to fetch, such as *Q4_K* (default: the needed files)",
  ),
  revision: flag(text, "name", "branch, tag or commit (default: main)"),
};

export const LIST_FLAGS = {
  all: onOff("list the names of models to pull, with sizes and licences"),
};

export const INSPECT_FLAGS = {
  modelPath: flag(text, "model", "model to check a LoRA against"),
  json,
};

export const QUANTIZE_FLAGS = {
  type: flag(quantizeType, "type", `type of the matrices: ${QUANTIZE_TYPES.join(", ")}`, {
    isMandatory: true,
  }),
  tensorType: flag(
    tensorType,
    "pattern=type",
    "another type for tensors with matching names; may be repeated",
    { default: [], shown: "none" },
  ),
  scales: off("write fp8 without scales, for programs that do not read them"),
  part: choice(
    ["transformer", "transformer_2", "text_encoder", "text_encoder_2", "image_encoder"],
    "name",
    "component of a model's folder",
    { default: "transformer" },
  ),
};

export const DOCTOR_FLAGS = {
  ...DEVICE_FLAGS,
  kernels: onOff("list the chosen kernels, and why"),
  dumpFolder: flag(text, "folder", "folder for the expanded WGSL of the adapter's kernels", {
    flag: "--dump",
  }),
};

export const TUNE_FLAGS = {
  ...DEVICE_FLAGS,
  budgetMs: flag(
    (text) => 1000 * integer(1)(text),
    "seconds",
    "time limit (default: 20, software: 60)",
    { flag: "--seconds" },
  ),
};

export const REPORT_FLAGS = {
  ...DEVICE_FLAGS,
  out: flag(text, "folder", "folder for report.md and report.json", { default: "gpu-report" }),
  minutes: flag(positive, "minutes", "time limit", { default: 10 }),
  sections: flag(text, "names", "sections to run, with commas between (default: all)"),
  torch: flag(
    text,
    "file",
    "torch's times on the same card, from tools/gpu_report/torch.py",
  ),
};

/** Flags of `test`, which the launcher reads itself. */
export const TEST_FLAGS = {
  changed: {
    ...onOff("only the tests that a change since a commit can reach (default: main)"),
    placeholder: "ref",
  },
  verbose: on("show the output of tests that pass, too"),
};

/** Flags of `bench`, which the launcher reads itself. */
export const BENCH_FLAGS = {
  ops: on("ops; with --models what runs when nothing is named"),
  models: on("the bundled model, and its kernels"),
  against: flag(
    text,
    "commit",
    "compare with a commit or another checkout; exit status 1 if slower",
  ),
  rounds: flag(text, "count", "turns of each comparison (default: 201)"),
  all: on("every variant of the ops that takes these sizes"),
  json: flag(text, "file", "file for the figures"),
  save: on("add the figures to bench/history.jsonl"),
};

export type DoctorFlags = FlagValues<typeof DOCTOR_FLAGS>;
export type InspectFlags = Partial<FlagValues<typeof INSPECT_FLAGS>>;
export type JobsFlags = FlagValues<typeof JOBS_FLAGS>;
export type PlanFlags = FlagValues<typeof PLAN_FLAGS>;
export type PsFlags = FlagValues<typeof PS_FLAGS>;
export type PullFlags = FlagValues<typeof PULL_FLAGS>;
export type QuantizeFlags = FlagValues<typeof QUANTIZE_FLAGS>;
export type ReportFlags = FlagValues<typeof REPORT_FLAGS>;
export type TuneFlags = FlagValues<typeof TUNE_FLAGS>;
export type ServeFlags = FlagValues<typeof SERVE_FLAGS>;
export type WorkerFlags = FlagValues<typeof WORKER_FLAGS>;
export type GenerateFlags = FlagValues<typeof GENERATE_FLAGS>;
/** Flags of the device, its memory, and how long a model stays there. */
export type DeviceFlags = Partial<
  FlagValues<
    & typeof DEVICE_FLAGS
    & typeof MEMORY_FLAGS
    & Pick<typeof SERVE_FLAGS, "tune" | "keepAliveMs">
  >
>;
