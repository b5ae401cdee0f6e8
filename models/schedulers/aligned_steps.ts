/** Levels that were optimised for ten steps of a model. Source: Sabour et al. 2024, "Align Your Steps". */
import { linspace } from "./shift.ts";
import { SettingError } from "../setting_error.ts";

/** Models with a table: Stable Diffusion 1 and XL. */
export type AlignedModel = "sd1" | "sdxl";

const TABLES: Readonly<Record<AlignedModel, readonly number[]>> = {
  sd1: [
    ...[14.6146412293, 6.4745760956, 3.8636745985, 2.6946151520, 1.8841921177, 1.3943805092],
    ...[0.9642583904, 0.6523686016, 0.3977456272, 0.1515232662, 0.0291671582],
  ],
  sdxl: [
    ...[14.6146412293, 6.3184485287, 3.7681790315, 2.1811480769, 1.3405244945, 0.8620721141],
    ...[0.5550693289, 0.3798540708, 0.2332364134, 0.1114188177, 0.0291671582],
  ],
};

/** `count` levels, without the last 0; other numbers than ten are interpolated in ln σ. */
export function alignedLevels(model: AlignedModel | undefined, count: number): number[] {
  if (model === undefined) {
    throw new SettingError(
      "scheduler",
      "Cannot use the scheduler align_your_steps: no steps were aligned for this model; choose another scheduler",
    );
  }
  const table = TABLES[model];
  return linspace(0, table.length - 1, count + 1).slice(0, -1).map((at) => {
    const low = Math.min(Math.floor(at), table.length - 2);
    return table[low]! * (table[low + 1]! / table[low]!) ** (at - low);
  });
}
