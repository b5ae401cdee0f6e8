/** Flags that several commands share, in groups. */

import { type Command, Option } from "commander";
import { address, boolean, gpuNumbers, integer, memory, pin } from "./flags.ts";

/** Adds which GPUs models are kept on. */
export function addCardFlags(command: Command): Command {
  return command
    .option("--num-gpus <count>", "number of GPUs that share the work", integer(1), 1)
    .option("--gpus <numbers>", "GPUs to use, by the numbers of doctor, such as 0,2", gpuNumbers)
    .option(
      "--pin <name=numbers>",
      "GPUs for one model, such as small=0,1; may be repeated",
      pin,
    );
}

/** Adds what the members of a fleet share. */
export function addFleetFlags(to: Command): Command {
  return to
    .addOption(
      new Option("--database-url <url>", "PostgreSQL database for the jobs of a fleet")
        .env("DENOISE_DATABASE_URL"),
    )
    .option("--s3-bucket <name>", "bucket for results; its key comes from the environment")
    .option("--s3-endpoint <url>", "address of an S3-compatible store (default: Amazon's)")
    .option("--s3-region <region>", "region of the bucket (default: us-east-1)");
}

/** Adds what reaches a running server. */
export function addServerFlags(to: Command): Command {
  return to
    .option("--url <address>", "address of the server", address, "http://127.0.0.1:30000")
    .addOption(apiKeyOption());
}

/** The key of a server that somebody else started. */
export function apiKeyOption(): Option {
  return new Option("--api-key <key>", "key of the server").env("DENOISE_API_KEY");
}

/** Adds the model, and how it is loaded. */
export function addModelFlags(to: Command): Command {
  to.option("--model-path <path>", "folder, file, name, hub id or org/name:file", "bundled");
  return addLoadFlags(to);
}

/** Adds how a model is loaded. */
export function addLoadFlags(to: Command): Command {
  addPartFlags(to);
  return addMemoryFlags(to)
    .option("--no-tune", "do not measure kernels at the first start on a GPU");
}

/** Adds parts of a model that come from elsewhere. */
export function addPartFlags(to: Command): Command {
  return to
    .option(
      "--transformer <path>",
      "replaces the transformer: file, folder, hub id, org/name:file",
    )
    .option(
      "--transformer-2 <path>",
      "replaces the low-noise transformer of models with two",
    )
    .option("--text-encoder <path>", "replaces the text encoder")
    .option("--text-encoder-2 <path>", "replaces the second text encoder of models with two")
    .option("--image-encoder <path>", "replaces the image encoder")
    .option("--mmproj <path>", "vision tower, for a text encoder in a GGUF file")
    .option("--vae <path>", "replaces the autoencoder")
    .option("--tiny-decoder <path>", "tiny decoder for previews and --decoder tiny")
    .option("--controlnet <path>", "ControlNet for --control: file, folder, hub id, org/name:file")
    .option("--upscaler <path>", "Real-ESRGAN network for --enable-upscaling")
    .option("--frame-interpolator <path>", "RIFE network for --enable-frame-interpolation")
    .option("--tokenizer <path>", "replaces the tokenizer: folder, GGUF file or hub id")
    .option("--tokenizer-2 <path>", "replaces the tokenizer of the second text encoder");
}

/** Adds the device, and how its memory is used. */
export function addMemoryFlags(to: Command): Command {
  return addDeviceFlags(to)
    .option("--max-vram <memory>", "GPU memory limit, such as 8G", memory)
    .addOption(
      flag(
        "--text-encoder-cpu-offload",
        "free the text encoder's GPU memory after use",
      ),
    )
    .addOption(flag("--vae-cpu-offload", "free the autoencoder's GPU memory after use"))
    .addOption(
      flag(
        "--pin-cpu-memory",
        "keep freed weights in host memory, for a fast return",
      ),
    )
    .addOption(
      flag("--enable-cfg-parallel", "use two GPUs for each guided request, one per prompt"),
    )
    .option("--ulysses-degree <degree>", "GPUs that share tokens and heads", integer(1), 1)
    .option("--ring-degree <degree>", "GPUs that share tokens and queries", integer(1), 1)
    .option("--split-layers <count>", "GPUs that share the layers of the transformer", integer(1));
}

/** Adds which GPU is used, and through what. */
export function addDeviceFlags(to: Command): Command {
  return to
    .addOption(
      new Option("--power-preference <kind>", "which GPU to use, if there are several")
        .choices(["high-performance", "low-power"]),
    )
    .addOption(flag("--software", "use the software adapter even if there is a GPU"))
    .addOption(
      new Option(
        "--gpu-backend <name>",
        "WebGPU implementation: Deno's, Dawn's (if installed), or the faster one",
      )
        .choices(["deno", "dawn", "auto"]).env("DENOISE_GPU_BACKEND"),
    );
}

/** A switch: `--name`, `--name true`, `--name=false`. */
export function flag(name: string, description: string): Option {
  return new Option(`${name} [boolean]`, description).argParser(boolean);
}

/** Collects the values of a flag that may be repeated. */
export function collect(value: string, before: readonly string[] | undefined): string[] {
  return [...before ?? [], value];
}
