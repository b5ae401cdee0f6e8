/** What one run of a program moves and computes, and how near it comes to what the device can do. */

import type { Intermediate, PlannedProgram } from "../../runtime/mod.ts";
import type { Ceilings } from "../../report/ceilings.ts";

/** Sums over the dispatches of a program. */
export interface StepReport {
  readonly dispatches: number;
  /** Arithmetic operations. */
  readonly flops: number;
  /** Bytes of the tensors that each dispatch reads and writes. */
  readonly bytes: number;
  /** Milliseconds that the arithmetic alone takes at the device's rate. */
  readonly arithmeticMs: number;
  /** Milliseconds that the memory alone takes. */
  readonly memoryMs: number;
  /** Milliseconds when every dispatch takes the longer of the two. */
  readonly ceilingMs: number;
  /** Bytes of all intermediates, as if each had memory of its own. */
  readonly intermediateBytes: number;
  /** Bytes of the slots that they share. */
  readonly slotBytes: number;
}

/** Adds up a planned program. */
export function stepReport({ submits, slots }: PlannedProgram, ceilings: Ceilings): StepReport {
  const dispatches = new Set(submits.flat().map(({ dispatch }) => dispatch));
  const intermediates = new Map<number, Intermediate>();
  const shared = new Map<number, number>();
  const sums = { flops: 0, bytes: 0, ceilingMs: 0 };
  const arithmetic = (flops: number) => flops / ceilings.flopsPerSecond * 1e3;
  const memory = (bytes: number) => bytes / ceilings.bytesPerSecond * 1e3;
  for (const { flops, bytes, tensors } of dispatches) {
    sums.flops += flops;
    sums.bytes += bytes;
    sums.ceilingMs += Math.max(arithmetic(flops), memory(bytes));
    for (const { memory } of tensors) {
      if (!("id" in memory)) continue;
      intermediates.set(memory.id, memory);
      const slot = slots.get(memory.id)!;
      shared.set(slot, Math.max(shared.get(slot) ?? 0, memory.byteLength));
    }
  }
  return {
    dispatches: submits.flat().length,
    ...sums,
    arithmeticMs: arithmetic(sums.flops),
    memoryMs: memory(sums.bytes),
    intermediateBytes: intermediates.values().reduce((sum, { byteLength }) => sum + byteLength, 0),
    slotBytes: shared.values().reduce((sum, bytes) => sum + bytes, 0),
  };
}

/** The report in two lines. */
export function describeStep(report: StepReport, measuredMs: number): string[] {
  const { dispatches, flops, bytes, arithmeticMs, memoryMs, ceilingMs } = report;
  const { intermediateBytes, slotBytes } = report;
  const ms = (value: number) => `${value.toFixed(2)} ms`;
  const mb = (value: number) => `${(value / 1e6).toFixed(2)} MB`;
  return [
    `${dispatches} dispatches, ${(flops / 1e6).toFixed(1)} MFLOP (${ms(arithmeticMs)}), ${
      mb(bytes)
    } moved (${ms(memoryMs)}): ${ms(ceilingMs)} at the device's ceiling, ${
      ms(measuredMs)
    } measured`,
    `${mb(intermediateBytes)} of intermediates in slots of ${mb(slotBytes)}`,
  ];
}
