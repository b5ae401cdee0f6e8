/** Two tuning runs: what they choose, how long they take, and whether they agree. */

import { tune, TUNING_BUDGET_MS, type VariantTiming } from "../../runtime/mod.ts";
import type { TunedClass, TuningRun } from "../types.ts";
import { type SectionContext, timeLeft } from "./section.ts";

const RUNS = 2;

export async function tuneTwice(context: SectionContext<"tuning">): Promise<boolean> {
  const { device, begin, found } = context;
  const runs: TuningRun[] = [];
  const classes = new Map<string, { -readonly [Key in keyof TunedClass]: TunedClass[Key] }>();
  let first: Awaited<ReturnType<typeof tune>> | undefined;
  let isComplete = true;
  for (let run = 0; run < RUNS; run++) {
    const budgetMs = Math.min(
      TUNING_BUDGET_MS[device.target.schedule],
      timeLeft(context) / (RUNS - run),
    );
    if (budgetMs <= 0) return false;
    begin(`run ${run + 1}`);
    const result = await tune(device, { budgetMs, onProgress: (_, line) => begin(line) });
    first ??= result;
    runs.push({ seconds: result.seconds, ...result.classes });
    isComplete &&= result.classes.measured === result.classes.known;
    for (const [op, choices] of Object.entries(result.choices)) {
      for (const [problemClass, timings] of Object.entries(choices)) {
        const key = `${op} ${problemClass}`;
        const known = classes.get(key) ??
          { op, problemClass, timings: new Array<readonly VariantTiming[]>(run).fill([]) };
        known.timings = [...known.timings, timings];
        classes.set(key, known);
      }
    }
    found({ runs, classes: [...classes.values()], tuning: first });
  }
  return isComplete;
}
