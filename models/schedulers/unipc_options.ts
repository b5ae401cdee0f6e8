/** What a configuration asks of UniPC. */
import { excerpt } from "../../hub/json_file.ts";
import {
  booleanField,
  boundedField,
  choiceField,
  refuseFields,
  requireField,
  type SchedulerConfig,
} from "./config.ts";
import type { UnipcOptions } from "./unipc_steps.ts";

/** Highest order of a solver; the method is used with 2 and 3. */
const MAX_ORDER = 9;

export function unipcOptions(config: SchedulerConfig): UnipcOptions {
  refuseFields(config, ["solver_p"]);
  requireField(config, "predict_x0", true, true);
  const order = boundedField(config, "solver_order", 2, 1, MAX_ORDER);
  if (!Number.isSafeInteger(order)) {
    throw new TypeError(
      `Cannot use the scheduler's solver_order ${order}: it must be a whole number`,
    );
  }
  // The reference reads the names of older solvers as `bh2`.
  const types = ["bh1", "bh2", "midpoint", "heun", "logrho"] as const;
  return {
    order,
    solverType: choiceField(config, "solver_type", types, "bh2") === "bh1" ? "bh1" : "bh2",
    lowerOrderFinal: booleanField(config, "lower_order_final", true),
    disableCorrector: new Set(integerList(config, "disable_corrector")),
  };
}

function integerList(config: SchedulerConfig, key: string): number[] {
  const value = config[key] ?? [];
  if (!Array.isArray(value) || !value.every((item) => Number.isSafeInteger(item))) {
    throw new TypeError(
      `Cannot read the scheduler's ${key}: ${excerpt(value)} is not a list of whole numbers`,
    );
  }
  return value as number[];
}
