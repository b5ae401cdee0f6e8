/** The command line: commands, flags and what they mean. */

import { type Command, Option } from "commander";
import { LOG_FORMATS } from "../server/log.ts";
import { DEFAULT_MAX_QUEUE } from "../server/settings.ts";
import { QUALITY_PRESETS } from "../media/quality.ts";
import { X264_PRESETS } from "../media/video/x264.ts";
import { MERGE_MODES, REQUEST_FIELDS, SETTING_FIELDS, version } from "../generation/mod.ts";
import { UsageError } from "./failure.ts";
import {
  address,
  duration,
  fieldOption,
  hosts,
  integer,
  lora,
  LORA_SYNTAX,
  memory,
  nonNegative,
  origins,
  positive,
} from "./flags.ts";
import {
  addCardFlags,
  addDeviceFlags,
  addFleetFlags,
  addLoadFlags,
  addMemoryFlags,
  addModelFlags,
  addPartFlags,
  addServerFlags,
  apiKeyOption,
  collect,
  flag,
} from "./flag_groups.ts";
import { QUANTIZE_TYPES, quantizeType, tensorType } from "./quantize_flags.ts";
import { SwitchCommand } from "./switch_command.ts";

/** Called with the exit status of the command that ran. */
type OnStatus = (status: number) => void;

/**
 * Makes the program. Each command is loaded when it runs, so that `--help` is quick.
 *
 * @returns a commander program that throws instead of ending the process
 */
export function createProgram(onStatus: OnStatus): Command {
  const program = command("denoise", "Diffusion models on any GPU")
    .version(version)
    .addCommand(serveCommand(onStatus))
    .addCommand(workerCommand(onStatus))
    .addCommand(generateCommand(onStatus))
    .addCommand(psCommand(onStatus))
    .addCommand(jobsCommand(onStatus))
    .addCommand(planCommand(onStatus))
    .addCommand(pullCommand(onStatus))
    .addCommand(listCommand(onStatus))
    .addCommand(removeCommand(onStatus))
    .addCommand(inspectCommand(onStatus))
    .addCommand(quantizeCommand(onStatus))
    .addCommand(doctorCommand(onStatus))
    .addCommand(tuneCommand(onStatus))
    .addCommand(reportCommand(onStatus))
    .addCommand(testCommand())
    .addCommand(benchCommand());
  return program.helpCommand(false).addCommand(helpCommand(program));
}

/** A command; whoever ends the program writes to standard error, in one sentence. */
function command(name: string, description: string): Command {
  return new SwitchCommand(name)
    .description(description)
    .exitOverride()
    .allowExcessArguments(false)
    .configureOutput({ outputError: () => {} });
}

function serveCommand(onStatus: OnStatus): Command {
  const serve = command("serve", "Serve a model over HTTP");
  serve.addOption(
    new Option(
      "--model-path <[name=]path>",
      "folder, file, name, hub id or org/name:file; may be repeated, and requests pick a model",
    ).argParser(collect).default([], "bundled"),
  ).addOption(
    new Option("--models <which>", "all: the bundled model and all models in the cache")
      .choices(["all"]),
  );
  addCardFlags(addFleetFlags(addLoadFlags(serve)))
    .addOption(
      new Option("--no-gpu", "only take requests; the fleet's workers run the jobs"),
    )
    .option("--served-model-name <name>", "public name of the model (default: --model-id or path)")
    .option(
      "--model-id <id>",
      "registered configuration, for a checkpoint that denoise cannot identify",
    )
    .option(
      "--public-url <url>",
      "address at which clients reach the server; makes links absolute",
      address,
    )
    .option("--host <address>", "address to bind", "127.0.0.1")
    .option("--port <port>", "port to bind, 0 for any free port", integer(0, 65535), 30000)
    .addOption(flag("--strict-ports", "fail if the port is in use, instead of taking a free one"))
    .option("--output-path <folder>", 'folder for results, "" to keep none', "outputs")
    .option(
      "--input-save-path <folder>",
      "folder for uploads, until their jobs end (default: inputs, beside the results)",
    )
    .addOption(
      new Option(
        "--retain <duration>",
        "how long the server keeps results, such as 12h or 7d; 0 for ever",
      )
        .argParser(duration).default(duration("7d"), "7d"),
    )
    .addOption(flag("--resume-jobs", "retry the jobs that a killed server left unfinished"))
    .addOption(
      flag("--allow-private-urls", "also fetch images from private networks"),
    )
    .addOption(
      new Option("--api-key <key>", "key that clients must send; may be repeated")
        .argParser(collect).default([], "none").env("DENOISE_API_KEY"),
    )
    .option(
      "--max-queue <jobs>",
      "maximum number of waiting requests; one client may have half",
      integer(0),
      DEFAULT_MAX_QUEUE,
    )
    .addOption(
      new Option(
        "--cors-origin <origin>",
        "origin whose pages may send requests, or *; may be repeated",
      )
        .argParser(origins).default([], "this machine"),
    )
    .addOption(
      new Option("--allowed-host <name>", "host name that clients may use; may be repeated")
        .argParser(hosts).default([], "the names of the address"),
    )
    .option(
      "--default-seed <seed>",
      "seed for requests without one (default: a new seed)",
      integer(0),
    )
    .addOption(flag("--strict-fields", "refuse requests with fields that have no effect"))
    .option(
      "--no-wait",
      "answer 503 while a further model loads, instead of waiting for it",
    )
    .addOption(
      new Option(
        "--webhook-secret <secret>",
        "key that signs webhooks: whsec_ and 24 to 64 bytes in base64",
      )
        .env("DENOISE_WEBHOOK_SECRET"),
    )
    .addOption(new Option("--no-playground", "do not serve the playground at /"))
    .addOption(flag("--enable-metrics", "serve /metrics for Prometheus"))
    .option("--no-sdapi", "do not serve the routes of Stable Diffusion WebUI, /sdapi/v1")
    .addOption(
      new Option("--log-format <format>", "sentences, or one JSON object per line")
        .choices(LOG_FORMATS).default("text"),
    )
    .option(
      `--lora <${LORA_SYNTAX}>`,
      "LoRA adapter to set at the start; may be repeated",
      lora,
    )
    .addOption(
      new Option(
        "--lora-dir <folder>",
        "folder of LoRAs that clients may use; may be repeated",
      ).argParser(collect).default([], "the model's folder and the hub cache"),
    )
    .addOption(
      flag(
        "--allow-hub-loras",
        "let clients fetch LoRAs from the hub; the server sends no token",
      ),
    )
    .option("--lora-cache-size <memory>", "memory for cached LoRAs (default: 2G)", memory)
    .addOption(
      new Option("--lora-merge-mode <mode>", "default way to apply LoRAs")
        .choices(MERGE_MODES).default("auto"),
    )
    .option("--prompt-enhancer-config <file>", "JSON file that enables enhance_prompt")
    .option(
      "--keep-alive <seconds>",
      "unload an idle model after this time (default: never)",
      nonNegative,
    );
  return serve.action(async (flags) => {
    const { runServe } = await import("./serve.ts");
    onStatus(await runServe(flags));
  });
}

function workerCommand(onStatus: OnStatus): Command {
  const worker = command("worker", "Run jobs of a fleet; its servers take the requests");
  addFleetFlags(worker).addOption(
    new Option(
      "--model-path <[name=]path>",
      "folder, file, name, hub id or org/name:file; may be repeated",
    ).argParser(collect).default([], "bundled"),
  ).addOption(
    new Option("--models <which>", "all: the bundled model and all models in the cache")
      .choices(["all"]),
  );
  return addCardFlags(addLoadFlags(worker))
    .option("--served-model-name <name>", "public name of the model (default: its path)")
    .option("--output-path <folder>", "folder for results, shared by the whole fleet", "outputs")
    .addOption(
      new Option("--drain <duration>", "how long jobs may run on after a signal to stop")
        .argParser(duration).default(duration("25s"), "25s"),
    )
    .addOption(
      new Option("--log-format <format>", "sentences, or one JSON object per line")
        .choices(LOG_FORMATS).default("text"),
    )
    .addOption(
      new Option("--lora-dir <folder>", "folder of LoRAs that clients may use; may be repeated")
        .argParser(collect).default([], "the model's folder and the hub cache"),
    )
    .addOption(flag("--allow-hub-loras", "let clients fetch LoRAs from the hub"))
    .option("--lora-cache-size <memory>", "memory for cached LoRAs (default: 2G)", memory)
    .option(
      "--keep-alive <seconds>",
      "unload an idle model after this time (default: never)",
      nonNegative,
    )
    .action(async (flags) => {
      const { runWorker } = await import("./worker.ts");
      onStatus(await runWorker(flags));
    });
}

function generateCommand(onStatus: OnStatus): Command {
  const generate = command("generate", "Make images or videos and write them to files");
  for (const [name, field] of Object.entries({ ...REQUEST_FIELDS, ...SETTING_FIELDS })) {
    generate.addOption(fieldOption(name, field));
  }
  addModelFlags(generate)
    .option(
      `--lora <${LORA_SYNTAX}>`,
      "LoRA adapter: a file, a folder or a hub id; may be repeated",
      lora,
    )
    .option("--from <file>", "image whose recipe sets the other flags' defaults")
    .option("--image <file...>", "image to edit or to start from; may be repeated", collect)
    .option(
      "--reference <file...>",
      "reference image of what to show (Wan VACE); may be repeated",
      collect,
    )
    .option(
      "--video <file>",
      "input video: to change, to follow, to be controlled by, or to continue",
    )
    .option("--no-audio", "drop the sound of the input video")
    .option(
      "--output <file>",
      "file to write: .png, .jpg, .webp, or .mp4 for a video (default: named for the prompt)",
    )
    .option("--output-path <folder>", "folder for files that --output does not name", "outputs")
    .option("--default-seed <seed>", "seed if --seed is omitted", integer(0))
    .option("--size <size>", "width and height in pixels, such as 512x512")
    .option("--num-outputs <count>", "number of images or videos", integer(1, 1000), 1)
    .addOption(
      new Option("--x264-preset <preset>", "effort of the video encoder (default: fast)")
        .choices(X264_PRESETS),
    )
    .option("--fragmented", "write videos that play while they are written")
    .addOption(
      new Option("--output-quality <preset>", "quality of JPEG, WebP and MP4 files")
        .choices(QUALITY_PRESETS).default("default"),
    )
    .option(
      "--output-compression <value>",
      "0 (small) to 100 (best); overrides --output-quality",
      integer(0, 100),
    )
    .option("--preview", "draw unfinished results in the terminal")
    .option("--url <address>", "let a running server do the work", address)
    .addOption(apiKeyOption());
  return generate.action(async (flags) => {
    const { runGenerate } = await import("./generate.ts");
    onStatus(await runGenerate(flags));
  });
}

function psCommand(onStatus: OnStatus): Command {
  const ps = command("ps", "Show the models and jobs of a running server")
    .addOption(flag("--json", "print JSON"));
  return addServerFlags(ps).action(async (flags) => {
    const { runPs } = await import("./jobs.ts");
    onStatus(await runPs(flags));
  });
}

function jobsCommand(onStatus: OnStatus): Command {
  const jobs = command("jobs", "List the jobs of a running server, show one, or cancel one")
    .argument("[id]", "job to show")
    .option("--cancel <id>", "job to stop")
    .option("--limit <count>", "maximum number of ended jobs in the list", integer(1, 200), 20)
    .addOption(flag("--json", "print JSON"));
  return addServerFlags(jobs).action(async (id, flags) => {
    const { runJobs } = await import("./jobs.ts");
    onStatus(await runJobs(id, flags));
  });
}

function planCommand(onStatus: OnStatus): Command {
  const plan = command("plan", "Show how much GPU memory a request needs; loads nothing")
    .argument("[model]", "folder, file, name, hub id or org/name:file", "bundled");
  addPartFlags(plan)
    .option("--size <size>", "width and height in pixels, such as 1024x1024")
    .option("--num-frames <count>", "frames of a video", integer(1))
    .option("--num-inference-steps <steps>", "denoising steps", integer(1))
    .addOption(flag("--json", "print JSON"));
  return addMemoryFlags(plan).action(async (model, flags) => {
    const { runPlan } = await import("./plan.ts");
    onStatus(await runPlan(model, flags));
  });
}

function pullCommand(onStatus: OnStatus): Command {
  return command("pull", "Fetch a model from the hub into the cache")
    .argument(
      "<name>",
      "name, such as z-image-turbo or z-image-turbo:q4_k, or hub id, such as org/name",
    )
    .option("--include <pattern...>", "files to fetch, such as *Q4_K* (default: the needed files)")
    .option("--revision <name>", "branch, tag or commit (default: main)")
    .action(async (id, flags) => {
      const { runPull } = await import("./pull.ts");
      onStatus(await runPull(id, flags));
    });
}

function listCommand(onStatus: OnStatus): Command {
  return command("list", "List the models on this machine")
    .addOption(flag("--all", "list the names of models to pull, with sizes and licences"))
    .action(async (flags) => {
      const { runList } = await import("./cached.ts");
      onStatus(await runList(flags));
    });
}

function removeCommand(onStatus: OnStatus): Command {
  return command("rm", "Remove models from the cache")
    .argument("<name...>", "names or hub ids")
    .action(async (ids) => {
      const { runRemove } = await import("./cached.ts");
      onStatus(await runRemove(ids));
    });
}

function inspectCommand(onStatus: OnStatus): Command {
  return command("inspect", "Describe files or folders: family, parts, formats, sizes")
    .argument("<path...>", "files, folders, names or hub ids on this machine, or bundled")
    .option("--model-path <model>", "model to check a LoRA against")
    .addOption(flag("--json", "print JSON"))
    .action(async (paths, flags) => {
      const { runInspect } = await import("./inspect.ts");
      onStatus(await runInspect(paths as [string, ...string[]], flags));
    });
}

function quantizeCommand(onStatus: OnStatus): Command {
  return command("quantize", "Write a copy of a model's weights in fewer bits")
    .argument("<in>", "safetensors file, folder, name or hub id on this machine, or bundled")
    .argument("<out>", "file to write: .gguf, or .safetensors for fp8")
    .addOption(
      new Option("--type <type>", `type of the matrices: ${QUANTIZE_TYPES.join(", ")}`)
        .argParser(quantizeType).makeOptionMandatory(),
    )
    .addOption(
      new Option(
        "--tensor-type <pattern=type>",
        "another type for tensors with matching names; may be repeated",
      ).argParser(tensorType).default([], "none"),
    )
    .option("--no-scales", "write fp8 without scales, for programs that do not read them")
    .addOption(
      new Option("--part <name>", "component of a model's folder")
        .choices([
          "transformer",
          "transformer_2",
          "text_encoder",
          "text_encoder_2",
          "image_encoder",
        ])
        .default("transformer"),
    )
    .action(async (input, output, flags) => {
      const { runQuantize } = await import("./quantize.ts");
      onStatus(await runQuantize(input, output, flags));
    });
}

function doctorCommand(onStatus: OnStatus): Command {
  const doctor = command("doctor", "Show the GPU and check that it computes correctly");
  addDeviceFlags(doctor)
    .addOption(flag("--kernels", "list the chosen kernels, and why"))
    .option("--dump <folder>", "folder for the expanded WGSL of the adapter's kernels");
  return doctor.action(async (flags) => {
    const { runDoctor } = await import("./doctor.ts");
    onStatus(await runDoctor(flags));
  });
}

function tuneCommand(onStatus: OnStatus): Command {
  const tune = command(
    "tune",
    "Measure which kernels are the fastest on the GPU, and store the result",
  );
  addDeviceFlags(tune)
    .option("--seconds <seconds>", "time limit (default: 20, software: 60)", integer(1));
  return tune.action(async (flags) => {
    const { runTune } = await import("./tune.ts");
    onStatus(await runTune(flags));
  });
}

function reportCommand(onStatus: OnStatus): Command {
  const report = command("report", "Measure the GPU and write a report to post");
  addDeviceFlags(report)
    .option("--out <folder>", "folder for report.md and report.json", "gpu-report")
    .option("--minutes <minutes>", "time limit", positive, 10)
    .option("--sections <names>", "sections to run, with commas between (default: all)")
    .option("--torch <file>", "torch's times on the same card, from tools/gpu_report/torch.py");
  return report.action(async (flags) => {
    const { runReportCommand } = await import("./report.ts");
    onStatus(await runReportCommand(flags));
  });
}

function testCommand(): Command {
  return sourceCommand("test", "Check that everything works on this machine")
    .argument("[path...]", "files or folders whose tests run (default: all, and every other check)")
    .option(
      "--changed [ref]",
      "only the tests that a change since a commit can reach (default: main)",
    )
    .option("--verbose", "show the output of tests that pass, too");
}

function benchCommand(): Command {
  return sourceCommand("bench", "Measure how fast this machine is")
    .argument("[op...]", "ops of sizes of your own, such as linear:1x4096x4096:q4_k")
    .option("--ops", "ops; with --models what runs when nothing is named")
    .option("--models", "the bundled model, and its kernels")
    .option(
      "--against <commit>",
      "compare with a commit or another checkout; exit status 1 if slower",
    )
    .option("--rounds <count>", "turns of each comparison (default: 201)")
    .option("--all", "every variant of the ops that takes these sizes")
    .option("--json <file>", "file for the figures")
    .option("--save", "add the figures to bench/history.jsonl");
}

/** What the launcher starts without this program, but for its help: it is in the source alone. */
function sourceCommand(name: string, description: string): Command {
  return command(name, description)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(() => {
      throw new UsageError(`Cannot run ${name} from here: start ./denoise ${name} in the source`);
    });
}

function helpCommand(program: Command): Command {
  return command("help", "Show the flags of a command")
    .argument("[command]", "a command; all are listed when it is left out")
    .action((name?: string) => {
      const named = program.commands.find((one) => one.name() === name);
      if (name !== undefined && !named) {
        throw new UsageError(
          `Cannot show the flags of ${name}: there is no such command; denoise help lists them`,
        );
      }
      (named ?? program).help();
    });
}
