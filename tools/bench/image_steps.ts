/** Steps of image transformers of full size, with weights that are made up: what a graphics card makes of them. */

import { FLUX2_TRANSFORMER_CONFIG } from "../../models/families/flux2/config.ts";
import { Z_IMAGE_TRANSFORMER_CONFIG } from "../../models/families/z_image/config.ts";
import {
  type Device,
  elementCount,
  instantiate,
  openDevice,
  planMemory,
  runSequence,
  Weights,
} from "../../runtime/mod.ts";
import type { Figures } from "./figures.ts";
import { type MatrixFormat, randomTensors } from "./random_tensors.ts";
import { best } from "./statistics.ts";
import { flux2Steps, type Size, type StepModel, zImageSteps } from "./step_models.ts";

/** What is measured. */
export interface ImageSteps {
  readonly models: readonly StepModel[];
  readonly formats: readonly MatrixFormat[];
  /** Sides of square pictures, in pixels. */
  readonly sides: readonly number[];
  /** Steps that are timed; one before them is not. */
  readonly rounds: number;
}

/** Models as they are published. */
const FULL_SIZE: ImageSteps = {
  models: [
    zImageSteps(Z_IMAGE_TRANSFORMER_CONFIG.parse({})),
    // klein 4B.
    flux2Steps(
      FLUX2_TRANSFORMER_CONFIG.parse({
        num_layers: 5,
        num_single_layers: 20,
        num_attention_heads: 24,
        guidance_embeds: false,
      }),
    ),
  ],
  formats: ["BF16", "Q8_0", "Q4_K"],
  sides: [512, 1024],
  rounds: 5,
};

/**
 * Measures steps of image transformers.
 *
 * @param log told what is being measured
 * @param steps what to measure
 */
export async function benchImageSteps(
  log: (line: string) => void,
  { models, formats, sides, rounds }: ImageSteps = FULL_SIZE,
): Promise<Figures> {
  const figures: Record<string, Figures[string]> = {};
  for (const model of models) {
    for (const format of formats) {
      const device = await openDevice();
      try {
        const weights = new Weights(randomTensors(model.weights, format));
        for (const side of sides) {
          const name = `${model.name} ${format.toLowerCase()}, step of ${side}x${side}`;
          log(name);
          const seconds = await timeStep(
            device,
            model,
            weights,
            { width: side, height: side },
            rounds,
          );
          figures[name] = { value: seconds, unit: "s" };
        }
        weights.destroy();
      } finally {
        device.destroy();
      }
    }
  }
  return figures;
}

/** Seconds of the fastest step. */
async function timeStep(
  device: Device,
  model: StepModel,
  weights: Weights,
  size: Size,
  rounds: number,
): Promise<number> {
  const step = model.step(device.target, weights.root, size);
  await weights.upload(device);
  for (const resident of step.tensors) resident.allocate(device);
  const programs = await instantiate(planMemory({ step: step.graph }), device);
  try {
    for (const resident of step.tensors) {
      resident.write(
        Float32Array.from({ length: elementCount(resident.shape) }, () => Math.random() - 0.5),
      );
    }
    const seconds: number[] = [];
    for (let round = -1; round < rounds; round++) {
      const start = performance.now();
      await runSequence(device, [{ programs: [programs.get("step")], stage: "step" }]);
      if (round >= 0) seconds.push((performance.now() - start) / 1000);
    }
    const values = await step.outputs.read();
    if (!values.every(Number.isFinite)) {
      throw new Error("The step gave values that are not numbers");
    }
    return best(seconds);
  } finally {
    programs.destroy();
    for (const resident of step.tensors) resident.destroy();
  }
}
