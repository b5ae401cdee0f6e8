/** Where the GPU's time goes: kernels of a denoising step and of the decoder, against the whole. */

import { openModelFiles } from "../../models/checkpoints/open_model.ts";
import { WAN } from "../../models/families/wan/pipeline.ts";
import type { Session } from "../../models/memory/session.ts";
import { TorchGenerator } from "../../models/schedulers/noise.ts";
import { openFamily } from "../../models/pipeline/diffusion_pipeline.ts";
import {
  type Device,
  elementCount,
  type Executable,
  openDevice,
  profileProgram,
  type ProfileRow,
  runSequence,
} from "../../runtime/mod.ts";
import { measureCeilings } from "../../report/ceilings.ts";
import type { Figures } from "./figures.ts";
import { BUNDLED } from "./machine.ts";
import { IMAGE } from "./models.ts";
import { best } from "../../report/statistics.ts";
import { describeStep, type StepReport, stepReport } from "./step_report.ts";

/** Prompt tokens of the stand-in prompts. */
const PROMPT_TOKENS = 8;

/** How many rows of a profile are kept and printed. */
const TOP_KERNELS = 6;

const ROUNDS = 3;

/** The programs whose kernels are timed, with how to call them. */
const PROFILED = {
  "denoise: pass 0": "denoise step",
  "decode: decode first": "decode",
} as const;

/**
 * Profiles the programs of a guided 64×64 image. Loops of whole programs are timed beside it in the same thread,
 * so that what is lost between kernels shows.
 */
export async function benchKernels(log: (line: string) => void): Promise<Figures> {
  const device = await openDevice();
  if (!device.target.features.timestamps) {
    log(`no kernel profile: the adapter "${device.adapter.name}" has no timestamps`);
    device.destroy();
    return {};
  }
  using pipeline = await openFamily(WAN, await openModelFiles(BUNDLED));
  const { prompt, width, height, seed, numInferenceSteps, guidanceScale } = IMAGE;
  const { session, runner } = pipeline.trace(device.target, {
    ...{ task: "T2I", prompt, negativePrompt: "", width, height, numFrames: 1 },
    ...{ seed, numInferenceSteps, guidanceScale },
  });
  try {
    const plan = runner.plan({ budgetBytes: Infinity });
    await runner.allocate(device, plan);
    writeInputs(session);
    const figures: Record<string, Figures[string]> = {};
    const rates = await measureCeilings(device);
    for (const [name, title] of Object.entries(PROFILED)) {
      const program = session.stages.flatMap(({ programs }) => programs.get(name) ?? [])[0]!;
      const report = stepReport(plan.stages[0]!.plan.programs[name]!, rates);
      const profiled = await profileOne(device, runner.executable(program), title, report, log);
      Object.assign(figures, profiled);
    }
    return figures;
  } finally {
    runner.destroy();
    device.destroy();
  }
}

async function profileOne(
  device: Device,
  program: Executable,
  name: string,
  report: StepReport,
  log: (line: string) => void,
): Promise<Figures> {
  const loops: number[] = [];
  let rows: ProfileRow[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    loops.push(await timeLoop(device, program));
    const profile = await profileProgram(program);
    if (rows.length === 0 || total(profile) < total(rows)) rows = profile;
  }
  const whole = best(loops);
  const kernels = total(rows);
  log(`${name}: ${ms(whole)} in a loop, ${ms(kernels)} in ${count(rows)} kernels`);
  for (const line of describeStep(report, whole)) log(`  ${line}`);
  for (const row of rows.slice(0, TOP_KERNELS)) log(`  ${describeRow(row, kernels)}`);
  return {
    [`${name} in a loop`]: { value: whole, unit: "ms" },
    [`${name} kernels`]: { value: kernels, unit: "ms" },
    [`${name} at the ceiling`]: { value: report.ceilingMs, unit: "ms" },
    ...Object.fromEntries(
      rows.slice(0, TOP_KERNELS).map(({ kernel, milliseconds }) => [
        `${name} kernel ${kernel}`,
        { value: milliseconds, unit: "ms" } as const,
      ]),
    ),
  };
}

/** Milliseconds per run of a program that is run as often as a image has steps. */
async function timeLoop(device: Device, program: Executable): Promise<number> {
  const steps = IMAGE.numInferenceSteps;
  const runs = Array.from({ length: steps }, () => ({ programs: [program], stage: "denoise" }));
  const start = performance.now();
  await runSequence(device, runs);
  return (performance.now() - start) / steps;
}

/** Inputs of the size that real ones have: zeros would be faster on some adapters, and NaN slower. */
function writeInputs({ tensors }: Session): void {
  for (const tensor of tensors) {
    if (!tensor.isAllocated) continue;
    const count = elementCount(tensor.shape);
    if (tensor.dtype === "f32") tensor.write(new TorchGenerator(IMAGE.seed).randn(count));
    else if (tensor.name.endsWith("lengths")) {
      tensor.write(new Array<number>(count).fill(PROMPT_TOKENS + 1));
    }
  }
}

function describeRow(row: ProfileRow, kernels: number): string {
  const share = `${(row.milliseconds / kernels * 100).toFixed(1)} %`;
  return [
    row.kernel.padEnd(36),
    `${row.dispatches}x`.padStart(5),
    ms(row.milliseconds).padStart(11),
    share.padStart(7),
    `${row.gflops.toFixed(2)} GFLOP/s`.padStart(15),
    `${row.gigabytesPerSecond.toFixed(2)} GB/s`.padStart(11),
  ].join(" ");
}

function total(rows: readonly ProfileRow[]): number {
  return rows.reduce((sum, { milliseconds }) => sum + milliseconds, 0);
}

function count(rows: readonly ProfileRow[]): number {
  return rows.reduce((sum, { dispatches }) => sum + dispatches, 0);
}

function ms(value: number): string {
  return `${value.toFixed(2)} ms`;
}
