/** Steps of image transformers of full size, with weights that are made up: what a graphics card makes of them. */

import { tuningFolder } from "../../engine/cache_folder.ts";
import { openTunedDevice } from "../../engine/tuned_device.ts";
import { MadeUpWeights, type MatrixFormat } from "../../report/made_up_weights.ts";
import { klein4B, type ModelPart, zImage } from "../../report/model_parts.ts";
import { LoadedPart } from "../../report/loaded_part.ts";
import { best } from "../../report/statistics.ts";
import { openDevice } from "../../runtime/mod.ts";
import type { Figures } from "./figures.ts";

/** What is measured. */
interface ImageSteps {
  readonly models: readonly ModelPart[];
  readonly formats: readonly MatrixFormat[];
  /** Sides of square images, in pixels. */
  readonly sides: readonly number[];
  /** Steps that are timed; one before them is not. */
  readonly rounds: number;
}

/** Models as they are published. */
const FULL_SIZE: ImageSteps = {
  models: [zImage(), klein4B()],
  formats: ["BF16", "Q8_0", "Q4_K"],
  sides: [512, 1024],
  rounds: 5,
};

/** Measures steps of image transformers, with the kernels that a start would choose. */
export async function benchImageSteps(
  log: (line: string) => void,
  { models, formats, sides, rounds }: ImageSteps = FULL_SIZE,
): Promise<Figures> {
  const figures: Record<string, Figures[string]> = {};
  const folder = tuningFolder();
  const events = { note: (line: string) => console.error(line), tuning: () => {} };
  for (const model of models) {
    for (const format of formats) {
      const device = folder === undefined
        ? await openDevice()
        : await openTunedDevice({}, { folder, mode: "auto" }, events);
      try {
        for (const side of sides) {
          const name = `${model.name} ${format.toLowerCase()}, step of ${side}x${side}`;
          log(name);
          const weights = new MadeUpWeights(format, model.hasBias);
          const step = model.trace(device.target, weights.root, { width: side, height: side });
          const bench = await LoadedPart.load(device, step, weights);
          await bench.run();
          const times: number[] = [];
          for (let i = 0; i < rounds; i++) times.push((await bench.run()).wallMs / 1000);
          if (!await bench.isFinite()) {
            throw new Error("The step gave values that are not numbers");
          }
          figures[name] = { value: best(times), unit: "s" };
          bench.destroy();
          weights.destroy();
        }
      } finally {
        device.destroy();
      }
    }
  }
  return figures;
}
