/** The flags of every command, as tables. */

import {
  address,
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
  texts,
} from "../generation/flag.ts";
import { QUALITY_PRESETS } from "../media/encode.ts";
import { X264_PRESETS } from "../media/video/quality.ts";
import { TEXT_ENCODERS } from "../models/lora/types.ts";
import { PREDICTION_TYPES } from "../models/schedulers/process.ts";
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

export const DEVICE_FLAGS = {
  powerPreference: flag("kind", "which GPU to use, if there are several", {
    choices: ["high-performance", "low-power"],
  }),
  forceSoftware: onOff("use the software adapter even if there is a GPU", { flag: "--software" }),
  gpuBackend: flag(
    "name",
    "WebGPU implementation: Deno's, Dawn's (if installed), or the faster one",
    { choices: ["deno", "dawn", "auto"] },
  ),
};

export const MEMORY_FLAGS = {
  maxVramBytes: flag("memory", "GPU memory limit, such as 8G", {
    read: memory,
    flag: "--max-vram",
  }),
  textEncoderCpuOffload: onOff("free the text encoder's GPU memory after use"),
  vaeCpuOffload: onOff("free the autoencoder's GPU memory after use"),
  pinCpuMemory: onOff("keep freed weights in host memory, for a fast return"),
  enableCfgParallel: onOff("use two GPUs for each guided request, one per prompt"),
  ulyssesDegree: flag("degree", "GPUs that share tokens and heads", {
    read: integer(1),
    default: 1,
  }),
  ringDegree: flag("degree", "GPUs that share tokens and queries", {
    read: integer(1),
    default: 1,
  }),
  splitLayers: flag("count", "GPUs that share the layers of the transformer", { read: integer(1) }),
};

export const PART_FLAGS = {
  transformer: flag("path", "replaces the transformer: file, folder, hub id, org/name:file"),
  transformer2: flag(
    "path",
    "replaces the second transformer of models with two: for low noise, without text, or for the second stage",
  ),
  textEncoder: flag("path", "replaces the text encoder"),
  textEncoder2: flag("path", "replaces the second text encoder of models with several"),
  textEncoder3: flag("path", "replaces the third text encoder of models with three, or none"),
  imageEncoder: flag("path", "replaces the image encoder, also that of an IP-Adapter"),
  mmproj: flag("path", "vision tower, for a text encoder in a GGUF file"),
  vae: flag("path", "replaces the autoencoder"),
  connectors: flag("path", "replaces the text connectors of LTX-2"),
  audioVae: flag("path", "replaces the autoencoder of the sound"),
  vocoder: flag("path", "replaces the vocoder"),
  latentUpsampler: flag("path", "latent upsampler of LTX-2 for --two-stages"),
  tinyDecoder: flag("path", "tiny decoder for previews and --decoder tiny"),
  refiner: flag("path", "UNet of SDXL's refiner for the last steps: file, folder, hub id"),
  controlnet: flag(
    "path",
    "ControlNet for --control: file, folder, hub id, org/name:file; may be repeated",
    { read: texts },
  ),
  ipAdapter: flag(
    "path",
    "IP-Adapter for --reference: file, org/name:file, name; may be repeated",
    { read: texts },
  ),
  upscaler: flag("path", "Real-ESRGAN network for --enable-upscaling"),
  frameInterpolator: flag("path", "RIFE network for --enable-frame-interpolation"),
  tokenizer: flag("path", "replaces the tokenizer: folder, GGUF file or hub id"),
  tokenizer2: flag("path", "replaces the tokenizer of the second text encoder"),
  tokenizer3: flag("path", "replaces the tokenizer of the third text encoder"),
  embeddings: flag(
    "folder",
    "folder of textual inversions, for models with CLIP: embedding:name in prompts",
  ),
  predictionType: flag(
    "type",
    "what a model of Stable Diffusion predicts, if its file does not say",
    {
      choices: PREDICTION_TYPES,
    },
  ),
  rescaleBetasZeroSnr: onOff(
    "end the noise schedule of Stable Diffusion in noise alone (zero SNR)",
  ),
};

const LOAD_FLAGS = {
  ...PART_FLAGS,
  ...DEVICE_FLAGS,
  ...MEMORY_FLAGS,
  tune: off("do not measure kernels at the first start on a GPU"),
};

const CARD_FLAGS = {
  numGpus: flag("count", "number of GPUs that share the work", { read: integer(1), default: 1 }),
  gpus: flag("numbers", "GPUs to use, by the numbers of doctor, such as 0,2", { read: gpuNumbers }),
  pins: flag("name=numbers", "GPUs for one model, such as small=0,1; may be repeated", {
    read: pin,
    flag: "--pin",
  }),
};

const FLEET_FLAGS = {
  databaseUrl: flag("url", "PostgreSQL database for the jobs of a fleet"),
  s3Bucket: flag("name", "bucket for results; its key comes from the environment"),
  s3Endpoint: flag("url", "address of an S3-compatible store (default: Amazon's)"),
  s3Region: flag("region", "region of the bucket (default: us-east-1)"),
};

const models = flag(
  "which",
  "all: also the bundled model and all models in the cache; named: those of --model-path (default: all, in a fleet named)",
  { choices: ["all", "named"] },
);
const logFormat = flag("format", "sentences, or one JSON object per line", {
  choices: LOG_FORMATS,
  default: "text",
});
const keepAliveMs = flag("seconds", "unload an idle model after this time (default: never)", {
  read: seconds,
  flag: "--keep-alive",
});

export const SERVE_FLAGS = {
  modelPath: flag(
    "[name=]path",
    "folder, file, name, hub id or org/name:file; may be repeated, and requests pick a model",
    { read: texts, default: [], shown: "bundled" },
  ),
  models,
  ...LOAD_FLAGS,
  ...FLEET_FLAGS,
  ...CARD_FLAGS,
  gpu: off("only take requests; the fleet's workers run the jobs"),
  servedModelName: flag("name", "public name of the model (default: --model-id or path)"),
  modelId: flag("id", "registered configuration, for a checkpoint that denoise cannot identify"),
  ...SERVER_FLAGS,
  logFormat,
  lora: flag(LORA_SYNTAX, "LoRA adapter to set at the start; may be repeated", { read: lora }),
  ...LORA_FLAGS,
  open: onOff("open the page in the browser"),
  promptEnhancerConfig: flag("file", "JSON file that enables enhance_prompt"),
  keepAliveMs,
};

export const WORKER_FLAGS = {
  ...FLEET_FLAGS,
  modelPath: flag("[name=]path", "folder, file, name, hub id or org/name:file; may be repeated", {
    read: texts,
    default: [],
    shown: "bundled",
  }),
  models,
  ...LOAD_FLAGS,
  ...CARD_FLAGS,
  servedModelName: flag("name", "public name of the model (default: its path)"),
  outputPath: flag("folder", "folder for results, shared by the whole fleet", {
    default: "outputs",
  }),
  graceMs: flag("duration", "how long jobs may run on after a signal to stop", {
    read: duration,
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

export const MODEL_FLAGS = {
  modelPath: flag("path", "folder, file, name, hub id or org/name:file", {
    default: "bundled",
    short: "-m",
  }),
  ...LOAD_FLAGS,
};

const apiKey = flag("key", "key of the server");

/** Flags of one request, which may differ from one to the next. */
export const ASK_FLAGS = {
  ...FIELD_FLAGS,
  prompt: { ...FIELD_FLAGS.prompt, short: "-p" },
  negativePrompt: { ...FIELD_FLAGS.negativePrompt, short: "-n" },
  seed: { ...FIELD_FLAGS.seed, short: "-s" },
  lora: flag(LORA_SYNTAX, "LoRA adapter: a file, a folder or a hub id; may be repeated", {
    read: lora,
  }),
  from: flag("file", "image whose recipe sets the other flags' defaults"),
  image: flag("file...", "image to edit or to start from; may be repeated", { read: texts }),
  reference: flag(
    "file...",
    "reference image of what to show (Wan VACE, Krea 2, IP-Adapter); may be repeated",
    {
      read: texts,
    },
  ),
  video: flag("file", "input video: to change, to follow, to be controlled by, or to continue"),
  audio: flag("file", "sound that a video follows and has: WAV, MP3, FLAC, or of a video (LTX-2)"),
  enableAudio: off("make a video without sound, of the model or of the input", {
    flag: "--no-audio",
  }),
  output: flag(
    "file",
    "file to write: .png, .jpg, .webp, .mp4 for a video, or .wav for its sound alone; - writes a PNG to standard output (default: named for the prompt)",
    { short: "-o" },
  ),
  outputPath: flag("folder", "folder for files that --output does not name", {
    default: "outputs",
  }),
  defaultSeed: flag("seed", "seed if --seed is omitted", { read: integer(0) }),
  size: flag("size", "width and height in pixels, such as 512x512"),
  numOutputs: flag("count", "number of images or videos", { read: integer(1, 1000), default: 1 }),
  x264Preset: flag("preset", "effort of the video encoder (default: fast)", {
    choices: X264_PRESETS,
  }),
  fragmented: on("write videos that play while they are written"),
  outputQuality: flag("preset", "quality of JPEG, WebP and MP4 files", {
    choices: QUALITY_PRESETS,
    default: "default",
  }),
  outputCompression: flag("value", "0 (small) to 100 (best); overrides --output-quality", {
    read: integer(0, 100),
  }),
  preview: on("draw results in the terminal as they come"),
};

export const GENERATE_FLAGS = {
  ...ASK_FLAGS,
  ...MODEL_FLAGS,
  promptFile: flag("file", "text file with the prompt; - reads standard input"),
  url: flag("address", "let a running server do the work", { read: address }),
  server: off("load the model even if a server of this machine has it"),
  apiKey,
};

/** The model is the first word of the command. */
export const RUN_FLAGS = { ...ASK_FLAGS, ...LOAD_FLAGS };

/** How the help of `run` shows its flags, the usual ones first. */
export const RUN_GROUPS = {
  "Usual options": [
    ...["prompt", "negativePrompt", "output", "size", "seed", "numOutputs"],
    ...["image", "strength", "lora", "numInferenceSteps", "guidanceScale"],
  ],
  "Inputs": [
    ...["from", "taskType", "mask", "reference", "referenceMask", "control", "video", "audio"],
    ...["enableAudio", "fit"],
  ],
  "Settings": Object.keys(FIELD_FLAGS),
  "Results": [
    ...["outputPath", "defaultSeed", "outputQuality", "outputCompression", "x264Preset"],
    ...["fragmented", "preview"],
  ],
  "Parts of the model": Object.keys(PART_FLAGS),
  "GPU and memory": [...Object.keys(DEVICE_FLAGS), ...Object.keys(MEMORY_FLAGS), "tune"],
};

/** How the help of `generate` shows its flags. */
export const GENERATE_GROUPS = {
  ...RUN_GROUPS,
  "Usual options": ["modelPath", ...RUN_GROUPS["Usual options"]],
  "Inputs": ["promptFile", ...RUN_GROUPS.Inputs],
  "Running server": ["url", "server", "apiKey"],
};

/** Where a server of this machine is, if nothing else was asked for. */
export const NEAR_SERVER = `http://127.0.0.1:${SERVER_FLAGS.port.default}`;

const CLIENT_FLAGS = {
  url: flag("address", "address of the server", {
    read: address,
    default: NEAR_SERVER,
  }),
  apiKey,
};

export const PS_FLAGS = { json, ...CLIENT_FLAGS };

export const JOBS_FLAGS = {
  cancel: flag("id", "job to stop"),
  limit: flag("count", "maximum number of ended jobs in the list", {
    read: integer(1, 200),
    default: 20,
  }),
  json,
  ...CLIENT_FLAGS,
};

export const PLAN_FLAGS = {
  ...PART_FLAGS,
  size: flag("size", "width and height in pixels, such as 1024x1024"),
  numFrames: flag("count", "frames of a video", { read: integer(1) }),
  numInferenceSteps: flag("steps", "denoising steps", { read: integer(1) }),
  hiresScale: flag("scale", "scale of a hires fix, whose second pass is planned", {
    read: positive,
  }),
  json,
  ...DEVICE_FLAGS,
  ...MEMORY_FLAGS,
};

export const PULL_FLAGS = {
  include: flag("pattern...", "files to fetch, such as *Q4_K* (default: the needed files)", {
    read: texts,
  }),
  revision: flag("name", "branch, tag or commit (default: main)"),
};

export const LIST_FLAGS = {
  all: onOff("list the names of models to pull: what fits the GPU, sizes, licences"),
  json,
};

export const INSPECT_FLAGS = {
  against: flag("model", "model to check a LoRA against", { flag: "--model-path" }),
  json,
};

export const QUANTIZE_FLAGS = {
  type: flag("type", `type of the matrices: ${QUANTIZE_TYPES.join(", ")}`, {
    read: quantizeType,
    isMandatory: true,
  }),
  tensorType: flag(
    "pattern=type",
    "another type for tensors with matching names; may be repeated",
    { read: tensorType, default: [], shown: "none" },
  ),
  scales: off("write fp8 without scales, for programs that do not read them"),
  part: flag("name", "component of a model's folder", {
    choices: ["transformer", "transformer_2", ...TEXT_ENCODERS, "image_encoder"],
    default: "transformer",
  }),
};

export const DOCTOR_FLAGS = {
  ...DEVICE_FLAGS,
  kernels: onOff("list the chosen kernels, and why"),
  dumpFolder: flag("folder", "folder for the expanded WGSL of the adapter's kernels", {
    flag: "--dump",
  }),
};

export const TUNE_FLAGS = {
  ...DEVICE_FLAGS,
  budgetMs: flag("seconds", "time limit (default: 20, software: 60)", {
    read: (text) => 1000 * integer(1)(text),
    flag: "--seconds",
  }),
};

export const REPORT_FLAGS = {
  ...DEVICE_FLAGS,
  out: flag("folder", "folder for report.md and report.json", { default: "gpu-report" }),
  minutes: flag("minutes", "time limit", { read: positive, default: 10 }),
  sections: flag("names", "sections to run, with commas between (default: all)"),
  torch: flag("file", "torch's times on the same card, from tools/gpu_report/torch.py"),
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
  against: flag("commit", "compare with a commit or another checkout; exit status 1 if slower"),
  rounds: flag("count", "turns of each comparison (default: 201)"),
  all: on("every variant of the ops that takes these sizes"),
  json: flag("file", "file for the figures"),
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
export type RunFlags = FlagValues<typeof RUN_FLAGS>;
export type DeviceFlags = Partial<
  FlagValues<
    & typeof DEVICE_FLAGS
    & typeof MEMORY_FLAGS
    & Pick<typeof SERVE_FLAGS, "tune" | "keepAliveMs">
  >
>;
