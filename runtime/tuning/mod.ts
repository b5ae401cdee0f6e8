/** Choosing kernels by what is measured on the adapter at hand. */
export { type AdapterKey, adapterKey, kernelSetVersion, type TuningKey } from "./kernel_set.ts";
export type { Race, RaceInput } from "../ops/op.ts";
export { type KernelChoice, listChoices } from "./report.ts";
export { tune, type TuneOptions, type Tuning, TUNING_BUDGET_MS } from "./tune.ts";
export { readTuning, type TuningRecord, writeTuning } from "./tuning_file.ts";
