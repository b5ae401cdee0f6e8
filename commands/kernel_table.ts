import type { DeviceReport } from "../engine/reports.ts";

/** Which kernels are used, for people. */
export function describeKernels(kernels: DeviceReport["kernels"]): string[] {
  const width = (key: "problemClass" | "variant") =>
    kernels.reduce((widest, kernel) => Math.max(widest, kernel[key].length), 0);
  const columns = [width("problemClass"), width("variant")] as const;
  return kernels.flatMap(({ op, problemClass, variant, why }, i) => [
    ...(kernels[i - 1]?.op === op ? [] : [op]),
    `  ${problemClass.padEnd(columns[0])}  ${variant.padEnd(columns[1])}  ${why}`,
  ]);
}
