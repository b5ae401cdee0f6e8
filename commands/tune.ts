/** `denoise tune`. */

import { tuneDevice } from "../engine/mod.ts";
import type { DeviceReport, TuningReport } from "../engine/reports.ts";
import type { TuneFlags } from "./flags.ts";
import { print, tell } from "./print.ts";

/** Measures which kernels are the fastest on the GPU and keeps that; it goes on where the last run ended. */
export async function runTune(flags: TuneFlags): Promise<number> {
  const report = await tuneDevice(flags, (event) => {
    if (event.type === "note") return tell(event.line);
    tell(`${String(Math.round(event.fraction * 100)).padStart(3)} %  ${event.line}`);
  });
  print(describeTuning(report));
  return 0;
}

export function describeTuning({ adapter, tuning, kernels, path }: TuningReport): string {
  const { classes: { measured, known }, excluded, seconds } = tuning;
  return [
    `Adapter   ${adapter}`,
    ...describeKernels(kernels),
    ...excluded.map((sentence) => `Not used here: ${sentence}`),
    `Measured ${measured} of ${known} classes in ${seconds.toFixed(1)} s` +
    (measured < known ? "; run it again for the rest" : ""),
    path === undefined ? "It could not be kept" : `Kept in ${path}`,
  ].join("\n");
}

export function describeKernels(kernels: DeviceReport["kernels"]): string[] {
  const width = (key: "problemClass" | "variant") =>
    kernels.reduce((widest, kernel) => Math.max(widest, kernel[key].length), 0);
  const columns = [width("problemClass"), width("variant")] as const;
  return kernels.flatMap(({ op, problemClass, variant, why }, i) => [
    ...(kernels[i - 1]?.op === op ? [] : [op]),
    `  ${problemClass.padEnd(columns[0])}  ${variant.padEnd(columns[1])}  ${why}`,
  ]);
}
