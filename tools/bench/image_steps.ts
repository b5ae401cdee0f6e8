/** Steps of image transformers of full size, with weights that are made up: what a graphics card makes of them. */

import {
  hiddenFeatures,
  PATCH_KEY,
  patchFeatures,
  Z_IMAGE_TRANSFORMER_CONFIG,
  type ZImageTransformerConfig,
} from "../../models/families/z_image/config.ts";
import { modulationRows } from "../../models/families/z_image/modulation.ts";
import { zImageTransformer } from "../../models/families/z_image/transformer.ts";
import {
  copyTo,
  type Device,
  Graph,
  instantiate,
  openDevice,
  planMemory,
  Resident,
  runSequence,
  type Shape,
  Weights,
} from "../../runtime/mod.ts";
import type { Figures } from "./figures.ts";
import { type MatrixFormat, randomTensors } from "./random_tensors.ts";
import { best } from "./statistics.ts";

/** What is measured. */
export interface ImageSteps {
  readonly config: ZImageTransformerConfig;
  readonly formats: readonly MatrixFormat[];
  /** Sides of square pictures, in pixels. */
  readonly sides: readonly number[];
  /** Steps that are timed; one before them is not. */
  readonly rounds: number;
}

/** Z-Image as it is published. */
const FULL_SIZE: ImageSteps = {
  config: Z_IMAGE_TRANSFORMER_CONFIG.parse({}),
  formats: ["BF16", "Q8_0", "Q4_K"],
  sides: [512, 1024],
  rounds: 5,
};

/** Pixels along a side of a token. */
const TOKEN_SIDE = 16;
/** Of a prompt of usual length. */
const TEXT_TOKENS = 64;

/**
 * Measures steps of Z-Image's transformer.
 *
 * @param log told what is being measured
 * @param steps what to measure
 */
export async function benchImageSteps(
  log: (line: string) => void,
  { config, formats, sides, rounds }: ImageSteps = FULL_SIZE,
): Promise<Figures> {
  const figures: Record<string, Figures[string]> = {};
  for (const format of formats) {
    const device = await openDevice();
    try {
      const weights = new Weights(randomTensors(stepShapes(config), format));
      for (const side of sides) {
        const name = `z-image ${format.toLowerCase()}, step of ${side}x${side}`;
        log(name);
        const seconds = await timeStep(device, config, weights, side / TOKEN_SIDE, rounds);
        figures[name] = { value: seconds, unit: "s" };
      }
      weights.destroy();
    } finally {
      device.destroy();
    }
  }
  return figures;
}

/** Seconds of the fastest step. */
async function timeStep(
  device: Device,
  config: ZImageTransformerConfig,
  weights: Weights,
  side: number,
  rounds: number,
): Promise<number> {
  const grid = { rows: side, columns: side };
  const inputs = {
    context: new Resident("context", [1, TEXT_TOKENS, config.dim]),
    sample: new Resident("sample", [1, side * side, patchFeatures(config)]),
    modulation: new Resident("modulation", [1, modulationRows(config) * config.dim]),
  };
  const graph = new Graph("step", device.target);
  const { context, sample, modulation } = inputs;
  const output = zImageTransformer(graph, config, weights.root, {
    ...{ context: graph.use(context), sample: graph.use(sample), grid },
    modulation: graph.use(modulation),
  });
  const result = new Resident("result", output.shape);
  copyTo(output, result);
  const residents = [...Object.values(inputs), result];
  await weights.upload(device);
  for (const resident of residents) resident.allocate(device);
  const programs = await instantiate(planMemory({ step: graph }), device);
  try {
    for (const resident of Object.values(inputs)) {
      const count = resident.shape.reduce((product, size) => product * size, 1);
      resident.write(Float32Array.from({ length: count }, () => Math.random() - 0.5));
    }
    const seconds: number[] = [];
    for (let round = -1; round < rounds; round++) {
      const start = performance.now();
      await runSequence(device, [{ programs: [programs.get("step")] }]);
      if (round >= 0) seconds.push((performance.now() - start) / 1000);
    }
    const values = await result.read();
    if (!values.every(Number.isFinite)) {
      throw new Error("The step gave values that are not numbers");
    }
    return best(seconds);
  } finally {
    programs.destroy();
    for (const resident of residents) resident.destroy();
  }
}

/** What a step takes of the transformer's weights. */
function stepShapes(config: ZImageTransformerConfig): Record<string, Shape> {
  const { dim, n_heads, n_layers, n_refiner_layers } = config;
  const [hidden, features] = [hiddenFeatures(config), patchFeatures(config)];
  const shapes: Record<string, Shape> = {
    x_pad_token: [1, dim],
    [`all_x_embedder.${PATCH_KEY}.weight`]: [dim, features],
    [`all_x_embedder.${PATCH_KEY}.bias`]: [dim],
    [`all_final_layer.${PATCH_KEY}.linear.weight`]: [features, dim],
    [`all_final_layer.${PATCH_KEY}.linear.bias`]: [features],
  };
  const block = (name: string) => {
    for (const part of ["to_q", "to_k", "to_v", "to_out.0"]) {
      shapes[`${name}.attention.${part}.weight`] = [dim, dim];
    }
    for (const part of ["norm_q", "norm_k"]) {
      shapes[`${name}.attention.${part}.weight`] = [dim / n_heads];
    }
    for (const part of ["attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"]) {
      shapes[`${name}.${part}.weight`] = [dim];
    }
    shapes[`${name}.feed_forward.w1.weight`] = [hidden, dim];
    shapes[`${name}.feed_forward.w2.weight`] = [dim, hidden];
    shapes[`${name}.feed_forward.w3.weight`] = [hidden, dim];
  };
  for (let i = 0; i < n_refiner_layers; i++) block(`noise_refiner.${i}`);
  for (let i = 0; i < n_layers; i++) block(`layers.${i}`);
  return shapes;
}
