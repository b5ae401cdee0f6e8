/** The command line: its commands. */

import { version } from "../generation/mod.ts";
import type { Flags, FlagValues } from "../generation/flag.ts";
import { UsageError } from "./failure.ts";
import { FlagCommand, type FlagGroups, valuesOf } from "./flag_command.ts";
import { ownDefaults } from "./own_defaults.ts";
import {
  BENCH_FLAGS,
  DOCTOR_FLAGS,
  GENERATE_FLAGS,
  GENERATE_GROUPS,
  INSPECT_FLAGS,
  JOBS_FLAGS,
  LIST_FLAGS,
  PLAN_FLAGS,
  PS_FLAGS,
  PULL_FLAGS,
  QUANTIZE_FLAGS,
  REPORT_FLAGS,
  RUN_FLAGS,
  RUN_GROUPS,
  SERVE_FLAGS,
  TEST_FLAGS,
  TUNE_FLAGS,
  WORKER_FLAGS,
} from "./flags.ts";

type Run<Values> =
  | ((flags: Values) => Promise<number>)
  // deno-lint-ignore no-explicit-any
  | ((word: any, flags: Values) => Promise<number>)
  // deno-lint-ignore no-explicit-any
  | ((first: string, second: any, flags: Values) => Promise<number>);

/** Makes the program. Each command is loaded when it runs, so that `--help` is quick. */
export function createProgram(onStatus: (status: number) => void): FlagCommand {
  const program = new FlagCommand("denoise", "Diffusion models on any GPU").version(version);

  const tables = new Map<string, Flags>();

  function add<Table extends Flags>(
    name: string,
    table: Table,
    load: () => Promise<Run<FlagValues<Table>>>,
    groups?: FlagGroups,
  ): FlagCommand {
    const command = new FlagCommand(name).addFlags(table, groups);
    tables.set(name, table);
    command.action(async (...given) => {
      const words = given.slice(0, -2);
      const run = await load() as (...words: unknown[]) => Promise<number>;
      const own = await ownDefaults(name, tables);
      onStatus(await run(...words, valuesOf(command, table, own)));
    });
    program.addCommand(command);
    return command;
  }

  add("serve", SERVE_FLAGS, async () => (await import("./serve.ts")).runServe)
    .description("Serve a model over HTTP");
  add("worker", WORKER_FLAGS, async () => (await import("./serve.ts")).runWorker)
    .description("Run jobs of a fleet; its servers take the requests");
  add(
    "generate",
    GENERATE_FLAGS,
    async () => (await import("./generate.ts")).runGenerateCommand,
    GENERATE_GROUPS,
  )
    .description("Make images or videos and write them to files")
    .argument("[prompt...]", "what to make, before other flags; - reads standard input");
  add("run", RUN_FLAGS, async () => (await import("./run.ts")).runRun, RUN_GROUPS)
    .description("Draw one prompt after another with a model, which is fetched if needed")
    .argument("[model]", "name, folder, file, hub id or org/name:file", "bundled")
    .argument("[prompt...]", "what to make first, before other flags");
  add("ps", PS_FLAGS, async () => (await import("./jobs.ts")).runPs)
    .description("Show the models and jobs of a running server");
  add("jobs", JOBS_FLAGS, async () => (await import("./jobs.ts")).runJobs)
    .description("List the jobs of a running server, show one, or cancel one")
    .argument("[id]", "job to show");
  add("plan", PLAN_FLAGS, async () => (await import("./plan.ts")).runPlan)
    .description("Show how much GPU memory a request needs; loads nothing")
    .argument("[model]", "folder, file, name, hub id or org/name:file", "bundled");
  add("pull", PULL_FLAGS, async () => (await import("./pull.ts")).runPull)
    .description("Fetch a model from the hub into the cache")
    .argument(
      "<name>",
      "name, such as z-image-turbo or z-image-turbo:q4_k, or hub id, such as org/name",
    );
  add("list", LIST_FLAGS, async () => (await import("./cached.ts")).runList)
    .description("List the models on this machine");
  add("rm", {}, async () => (await import("./cached.ts")).runRemove)
    .description("Remove models from the cache")
    .argument("<name...>", "names or hub ids");
  add("inspect", INSPECT_FLAGS, async () => (await import("./inspect.ts")).runInspect)
    .description("Describe files or folders: family, parts, formats, sizes")
    .argument("<path...>", "files, folders, names or hub ids on this machine, or bundled");
  add("quantize", QUANTIZE_FLAGS, async () => (await import("./quantize.ts")).runQuantize)
    .description("Write a copy of a model's weights in fewer bits")
    .argument("<in>", "file of weights, folder, name or hub id on this machine, or bundled")
    .argument("<out>", "file to write: .gguf, or .safetensors for fp8");
  add("doctor", DOCTOR_FLAGS, async () => (await import("./doctor.ts")).runDoctor)
    .description("Show the GPU and check that it computes correctly");
  add("tune", TUNE_FLAGS, async () => (await import("./tune.ts")).runTune)
    .description("Measure which kernels are the fastest on the GPU, and store the result");
  add("report", REPORT_FLAGS, async () => (await import("./report.ts")).runReportCommand)
    .description("Measure the GPU and write a report to post");

  add("config", {}, async () => {
    const { runConfig } = await import("./config.ts");
    return () => runConfig(tables);
  }).description("Show your own defaults of flags, and where they are set");

  add("completion", {}, async () => {
    const { runCompletion } = await import("./completion.ts");
    const commands = program.commands.map((one) => [one.name(), one.description()] as const);
    return (shell: string) => runCompletion(shell, commands, tables);
  }).description("Print a script that completes commands, flags and names in a shell")
    .argument("<shell>", "bash, zsh or fish");

  // The launcher starts these in the source; here they only have a help.
  const addLaunched = (name: string, description: string, table: Flags) =>
    add(name, table, () => {
      throw new UsageError(`Cannot run ${name} from here: start ./denoise ${name} in the source`);
    }).description(description).allowUnknownOption().allowExcessArguments();
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
