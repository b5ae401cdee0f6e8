/** From times of races to what the runtime does with them. */
import type { Target, VariantTiming } from "../target.ts";
import type { RaceResult } from "./race.ts";

/** A variant must be this much faster than the rule's own: below, the clock decided and not the kernel. */
const PAR = 1.1;

/**
 * Orders variants by preference: the fastest first, but the rule's own choice before it where both are on a par.
 *
 * @param timings of one race
 * @param byRule what would be chosen without a measurement
 */
export function rank(timings: readonly VariantTiming[], byRule: string): VariantTiming[] {
  const sorted = timings.toSorted((a, b) => a.microseconds - b.microseconds);
  const own = sorted.find(({ variant }) => variant === byRule);
  if (!own || own.microseconds > sorted[0]!.microseconds * PAR) return sorted;
  return [own, ...sorted.filter((timing) => timing !== own)];
}

/** How long one submit should take, in seconds: enough to hide Deno's waits, far below a watchdog of 2 s. */
const SUBMIT_SECONDS = 0.1;
/** Operations per byte from which on arithmetic bounds a race, and up to which memory does: decoding blocks is work. */
const ARITHMETIC = 32;
const MEMORY = 1.5;
/** A race must last this long per call, in microseconds, for its rate to say something. */
const LEAST_MICROSECONDS = 20;

/**
 * Work that one submit may hold on the device that was measured: that of the slowest race, since nobody knows which
 * kernels will be in a submit. Where no race says something, it stays what it was.
 */
export function calibrateSubmits(
  results: readonly Pick<RaceResult, "timings" | "flops" | "bytes">[],
  fallback: Target["submitBudget"],
): Target["submitBudget"] {
  const slowest = (work: "flops" | "bytes", counts: (intensity: number) => boolean) => {
    const rates = results.flatMap(({ timings, flops, bytes }) => {
      const time = timings[0]?.microseconds ?? 0;
      const isTold = time >= LEAST_MICROSECONDS && counts(flops / bytes);
      return isTold ? [(work === "flops" ? flops : bytes) / time * 1e6] : [];
    });
    return rates.length > 0 ? Math.min(...rates) * SUBMIT_SECONDS : fallback[work];
  };
  return {
    flops: slowest("flops", (intensity) => intensity >= ARITHMETIC),
    bytes: slowest("bytes", (intensity) => intensity <= MEMORY),
  };
}
