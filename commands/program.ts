/** The command line: its commands. */

import { version } from "../generation/mod.ts";
import type { Flags, FlagValues } from "../generation/flag.ts";
import { UsageError } from "./failure.ts";
import { FlagCommand, valuesOf } from "./flag_command.ts";
import {
  BENCH_FLAGS,
  DOCTOR_FLAGS,
  GENERATE_FLAGS,
  INSPECT_FLAGS,
  JOBS_FLAGS,
  LIST_FLAGS,
  PLAN_FLAGS,
  PS_FLAGS,
  PULL_FLAGS,
  QUANTIZE_FLAGS,
  REPORT_FLAGS,
  SERVE_FLAGS,
  TEST_FLAGS,
  TUNE_FLAGS,
  WORKER_FLAGS,
} from "./flags.ts";

/** Makes the program. Each command is loaded when it runs, so that `--help` is quick. */
export function createProgram(onStatus: (status: number) => void): FlagCommand {
  const program = new FlagCommand("denoise", "Diffusion models on any GPU").version(version);

  function add<Table extends Flags>(
    name: string,
    description: string,
    table: Table,
    // deno-lint-ignore no-explicit-any
    run: (flags: FlagValues<Table>, ...words: any[]) => Promise<number>,
  ): FlagCommand {
    const command = new FlagCommand(name, description).addFlags(table);
    command.action(async (...given) =>
      onStatus(await run(valuesOf(command, table), ...given.slice(0, -2)))
    );
    program.addCommand(command);
    return command;
  }

  add("serve", "Serve a model over HTTP", SERVE_FLAGS, async (flags) => {
    const { runServe } = await import("./serve.ts");
    return await runServe(flags);
  });
  add(
    "worker",
    "Run jobs of a fleet; its servers take the requests",
    WORKER_FLAGS,
    async (flags) => {
      const { runWorker } = await import("./serve.ts");
      return await runWorker(flags);
    },
  );
  add(
    "generate",
    "Make images or videos and write them to files",
    GENERATE_FLAGS,
    async (flags) => {
      const { runGenerate } = await import("./generate.ts");
      return await runGenerate(flags);
    },
  );
  add("ps", "Show the models and jobs of a running server", PS_FLAGS, async (flags) => {
    const { runPs } = await import("./jobs.ts");
    return await runPs(flags);
  });
  add(
    "jobs",
    "List the jobs of a running server, show one, or cancel one",
    JOBS_FLAGS,
    async (flags, id) => {
      const { runJobs } = await import("./jobs.ts");
      return await runJobs(id, flags);
    },
  ).argument("[id]", "job to show");
  add(
    "plan",
    "Show how much GPU memory a request needs; loads nothing",
    PLAN_FLAGS,
    async (flags, model) => {
      const { runPlan } = await import("./plan.ts");
      return await runPlan(model, flags);
    },
  ).argument("[model]", "folder, file, name, hub id or org/name:file", "bundled");
  add("pull", "Fetch a model from the hub into the cache", PULL_FLAGS, async (flags, id) => {
    const { runPull } = await import("./pull.ts");
    return await runPull(id, flags);
  }).argument(
    "<name>",
    "name, such as z-image-turbo or z-image-turbo:q4_k, or hub id, such as org/name",
  );
  add("list", "List the models on this machine", LIST_FLAGS, async (flags) => {
    const { runList } = await import("./cached.ts");
    return await runList(flags);
  });
  add("rm", "Remove models from the cache", {}, async (_, ids) => {
    const { runRemove } = await import("./cached.ts");
    return await runRemove(ids);
  }).argument("<name...>", "names or hub ids");
  add(
    "inspect",
    "Describe files or folders: family, parts, formats, sizes",
    INSPECT_FLAGS,
    async (flags, paths) => {
      const { runInspect } = await import("./inspect.ts");
      return await runInspect(paths, flags);
    },
  ).argument("<path...>", "files, folders, names or hub ids on this machine, or bundled");
  add(
    "quantize",
    "Write a copy of a model's weights in fewer bits",
    QUANTIZE_FLAGS,
    async (flags, input, output) => {
      const { runQuantize } = await import("./quantize.ts");
      return await runQuantize(input, output, flags);
    },
  )
    .argument("<in>", "safetensors file, folder, name or hub id on this machine, or bundled")
    .argument("<out>", "file to write: .gguf, or .safetensors for fp8");
  add(
    "doctor",
    "Show the GPU and check that it computes correctly",
    DOCTOR_FLAGS,
    async (flags) => {
      const { runDoctor } = await import("./doctor.ts");
      return await runDoctor(flags);
    },
  );
  add(
    "tune",
    "Measure which kernels are the fastest on the GPU, and store the result",
    TUNE_FLAGS,
    async (flags) => {
      const { runTune } = await import("./tune.ts");
      return await runTune(flags);
    },
  );
  add("report", "Measure the GPU and write a report to post", REPORT_FLAGS, async (flags) => {
    const { runReportCommand } = await import("./report.ts");
    return await runReportCommand(flags);
  });
  // The launcher starts these in the source; here they only have a help.
  const addLaunched = (name: string, description: string, table: Flags) =>
    add(name, description, table, () => {
      throw new UsageError(`Cannot run ${name} from here: start ./denoise ${name} in the source`);
    }).allowUnknownOption().allowExcessArguments();
  addLaunched("test", "Check that everything works on this machine", TEST_FLAGS)
    .argument(
      "[path...]",
      "files or folders whose tests run (default: all, and every other check)",
    );
  addLaunched("bench", "Measure how fast this machine is", BENCH_FLAGS)
    .argument("[op...]", "ops of sizes of your own, such as linear:1x4096x4096:q4_k");

  const help = new FlagCommand("help", "Show the flags of a command")
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
  return program.helpCommand(false).addCommand(help);
}
