/** `denoise plan`. */

import { type HandoverEstimate, type MemoryReport, type ModelPlan, planModel } from "../mod.ts";
import { memoryTable } from "../models/memory/memory_report.ts";
import { parseSize } from "../generation/mod.ts";
import { asUsage } from "./failure.ts";
import type { PlanFlags } from "./flags.ts";
import { deviceOptions, partsOf } from "./model_options.ts";
import { describeSize, print, tell } from "./print.ts";

/** Says what each stage of a request would have on the device, without uploading anything; 1 if it does not fit. */
export async function runPlan(model: string, flags: PlanFlags): Promise<number> {
  const plan = await planModel(model, {
    ...deviceOptions(flags),
    parts: partsOf(flags),
    onNote: (line) => tell(line),
    ...(flags.size === undefined ? {} : asUsage(() => parseSize(flags.size!))),
    ...(flags.numFrames === undefined ? {} : { numFrames: flags.numFrames }),
    ...(flags.numInferenceSteps === undefined
      ? {}
      : { numInferenceSteps: flags.numInferenceSteps }),
    ...(flags.hiresScale === undefined ? {} : { hiresScale: flags.hiresScale }),
  });
  if (flags.numFrames !== undefined && plan.numFrames !== flags.numFrames) {
    tell(
      `Note: plans ${plan.numFrames} frames, the nearest to ${flags.numFrames} that the model makes`,
    );
  }
  print(flags.json ? JSON.stringify({ model, ...plan }, undefined, 2) : describe(model, plan));
  return plan.memory.fits ? 0 : 1;
}

export function describe(model: string, plan: ModelPlan): string {
  const frames = plan.numFrames === 1 ? "1 frame" : `${plan.numFrames} frames`;
  const lines = [
    `${model} at ${describeSize(plan)}, ${frames}, on ${plan.adapter}`,
    "",
    memoryTable(plan.memory),
  ];
  const { fits, reloadedBytes, exchanged, hostBytes } = plan.memory;
  if (exchanged && plan.handover) lines.push(describeHandover(exchanged, plan.handover));
  if (!fits) {
    lines.push(
      "Allow more memory, take a quantised model, or ask for a smaller size or fewer frames",
    );
  } else if (reloadedBytes > 0) {
    const gigabytes = (reloadedBytes / 1e9).toFixed(2);
    const what = hostBytes ? "weights and waiting results" : "weights";
    lines.push(`Each request brings ${gigabytes} GB of ${what} to the device again`);
  }
  return lines.join("\n");
}

function describeHandover(
  { count, broughtBytes, takenBytes }: NonNullable<MemoryReport["exchanged"]>,
  { gpus, stepSeconds, paysFromSeconds }: HandoverEstimate,
): string {
  const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
  const seconds = (time: number) => `${time.toPrecision(2)} s`;
  const pays = paysFromSeconds === undefined
    ? ""
    : `, so ${gpus} GPUs are faster where a step takes more than ${
      seconds(paysFromSeconds)
    } on one`;
  return `In each step a GPU hands over ${megabytes(broughtBytes)} and takes ${
    megabytes(takenBytes)
  } in ${count} ${count === 1 ? "exchange" : "exchanges"}: about ${
    seconds(stepSeconds)
  } here${pays}`;
}
