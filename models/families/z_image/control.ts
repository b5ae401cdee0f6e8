/**
 * ControlNets of Z-Image: blocks like those of the transformer go on from what it makes of sample and prompt, with a
 * picture in place of the sample, and what each of them gives is added to one of the transformer's layers.
 *
 * Source: diffusers `ZImageControlNetModel`, whose module names are the weight names.
 */
import {
  concat,
  elementwise,
  type Graph,
  type Rotation,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { linearLayer } from "../../layers.ts";
import { PATCH_KEY, type ZImageControlNetConfig } from "./config.ts";
import { type BlockModulation, blockVectors } from "./modulation.ts";
import { type ControlResiduals, embedImage, zImageBlock, type ZImageState } from "./transformer.ts";

/** Inputs of one pass. */
interface ControlInputs {
  /** The picture's latents as patches, [1, tokens, features]. */
  readonly picture: Tensor;
  /** One row of `controlTable()`. */
  readonly modulation: Tensor;
  /** Weight, f32 [1]. */
  readonly scale: Tensor;
}

/** Blocks that have vectors of their own, by the names of their stacks. */
export function controlStacks(config: ZImageControlNetConfig): Record<string, number> {
  const { add_control_noise_refiner: refiner, control_layers_places: places } = config;
  return {
    ...(refiner !== "control_layers" && { control_noise_refiner: config.n_refiner_layers }),
    control_layers: places.length,
  };
}

/**
 * Traces a ControlNet.
 *
 * @param weights of the transformer, whose token it takes to fill pictures up
 */
export function zImageControl(
  graph: Graph,
  config: ZImageControlNetConfig,
  { weights, control }: { readonly weights: WeightScope; readonly control: WeightScope },
  { picture, modulation, scale }: ControlInputs,
): ControlResiduals {
  const within = <T>(name: string, trace: () => T) => graph.scope(`controlnet.${name}`, trace);
  const stacks = controlStacks(config);
  const refiners = stacks["control_noise_refiner"] ?? 0;
  const table = modulation.reshape(-1, 1, config.dim);
  const vectors = {
    refiners: blockVectors(table, 0, refiners),
    layers: blockVectors(table, refiners, stacks["control_layers"]!),
  };
  const blockOf = (
    stack: string,
    layer: number,
    x: Tensor,
    rotary: Rotation,
    modulation: BlockModulation,
  ) =>
    within(`${stack}.${layer}`, () => {
      const block = control.scope(stack).scope(layer);
      return zImageBlock(config, block, x, rotary, modulation);
    });

  /** A stack that begins beside what the transformer has; gives what each block adds, and then where it ends. */
  function* beside(
    stack: string,
    modulation: readonly BlockModulation[],
    { picture, own, rotary }: {
      readonly picture: Tensor;
      readonly own: Tensor;
      readonly rotary: Rotation;
    },
  ): Generator<() => Tensor, Tensor> {
    const layer = (i: number) => control.scope(stack).scope(i);
    let x = within(
      stack,
      () => linearLayer(layer(0), "before_proj", picture, config.dim, { residual: own }),
    );
    for (const [i, each] of modulation.entries()) {
      const given = x = blockOf(stack, i, x, rotary, each);
      yield () =>
        within(`${stack}.${i}`, () => linearLayer(layer(i), "after_proj", given, config.dim));
    }
    return x;
  }

  const added = (x: Tensor, residual: Tensor) =>
    elementwise("x + scale * c", { x, scale, c: residual }, { name: "control" });

  /** The picture, and the sample where it is refined by the picture too. */
  const refined = ({ embedded, refined, refine, rotary }: ZImageState): [Tensor, Tensor] => {
    const embedder = { weights: control, name: `control_all_x_embedder.${PATCH_KEY}` };
    const tokens = within("embed", () => embedImage(config, weights, picture, embedder));
    const stack = config.add_control_noise_refiner;
    if (!stack) {
      const alone = vectors.refiners.reduce(
        (x, each, i) => blockOf("control_noise_refiner", i, x, rotary.image, each),
        tokens,
      );
      return [alone, refined];
    }
    const modulation = stack === "control_layers" ? vectors.layers : vectors.refiners;
    const blocks = beside(stack, modulation, {
      ...{ picture: tokens, own: embedded, rotary: rotary.image },
    });
    const residuals: (() => Tensor)[] = [];
    let next = blocks.next();
    for (; !next.done; next = blocks.next()) residuals.push(next.value);
    const places = config.control_refiner_layers_places ?? [];
    const sample = within("refined", () =>
      refine((x, block) => {
        const residual = residuals[places.indexOf(block)];
        return residual ? added(x, residual()) : x;
      }));
    return [next.value, sample];
  };

  return (state) => {
    const [tokens, sample] = refined(state);
    const residuals = beside("control_layers", vectors.layers, {
      picture: concat([tokens, state.context], 1),
      own: concat([sample, state.context], 1),
      rotary: state.rotary.joint,
    });
    return (x, layer) => {
      if (!config.control_layers_places.includes(layer)) return x;
      return added(x, (residuals.next().value as () => Tensor)());
    };
  };
}
