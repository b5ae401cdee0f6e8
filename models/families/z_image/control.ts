/**
 * ControlNets of Z-Image: blocks go on from sample and prompt, with a picture instead of the sample, beside some layers.
 * Source: diffusers `ZImageControlNetModel`, whose module names are the weight names.
 */
import {
  concat,
  type DeviceTensor,
  gather,
  type Graph,
  type Rotation,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import type { KlVaeConfig } from "../../autoencoders/kl/config.ts";
import { scaleLatents } from "../../autoencoders/kl/posterior.ts";
import type { TiledSize } from "../../autoencoders/tiled_coder.ts";
import { linearLayer } from "../../blocks/layers.ts";
import type { Session } from "../../memory/session.ts";
import type { Component } from "../../pipeline/components.ts";
import {
  type ControlledPass,
  type SeenPicture,
  steered,
  traceControlPictures,
} from "../../pipeline/control.ts";
import type { Work } from "../../pipeline/work.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { klCodec } from "../../pipeline/kl_coders.ts";
import type { TokenSplit } from "../../sharing/token_split.ts";
import { embedImage, zImageBlock } from "./block.ts";
import { PATCH_KEY, type ZImageControlNetConfig, type ZImageTransformerConfig } from "./config.ts";
import { type BlockModulation, blockVectors, controlTable } from "./modulation.ts";
import { patchesOf } from "./positions.ts";

/** The picture's latents are patches. */
interface ControlInputs extends SeenPicture {
  /** One row of `controlTable()`. */
  readonly modulation: Tensor;
}

interface ControlScopes {
  readonly weights: WeightScope;
  readonly control: WeightScope;
}

interface Places {
  readonly rotary: Rotation;
  readonly split: TokenSplit;
}

interface RefinedPicture {
  /** [1, `paddedCount()`, dim], own tokens. */
  readonly picture: Tensor;
  /** The image as it alone has it, refined by the picture; nothing where it goes on from the transformer's. */
  readonly sample: Tensor | undefined;
  readonly residuals: readonly Tensor[];
}

interface Steering {
  readonly x: Tensor;
  readonly control: Tensor | undefined;
}

export function controlStacks(config: ZImageControlNetConfig): Record<string, number> {
  const { add_control_noise_refiner: refiner, control_layers_places: places } = config;
  return {
    ...(refiner !== "control_layers" && { control_noise_refiner: config.n_refiner_layers }),
    control_layers: places.length,
  };
}

export class ZImageControl {
  readonly #graph: Graph;
  readonly #config: ZImageControlNetConfig;
  readonly #scopes: ControlScopes;
  readonly #inputs: ControlInputs;
  readonly #vectors: Readonly<Record<"refiners" | "layers", readonly BlockModulation[]>>;

  constructor(
    graph: Graph,
    config: ZImageControlNetConfig,
    scopes: ControlScopes,
    inputs: ControlInputs,
  ) {
    const stacks = controlStacks(config);
    const refiners = stacks["control_noise_refiner"] ?? 0;
    const table = inputs.modulation.reshape(-1, 1, config.dim);
    this.#graph = graph;
    this.#config = config;
    this.#scopes = scopes;
    this.#inputs = inputs;
    this.#vectors = {
      refiners: blockVectors(table, 0, refiners),
      layers: blockVectors(table, refiners, stacks["control_layers"]!),
    };
  }

  begin(x: Tensor): RefinedPicture {
    const { add_control_noise_refiner: stack } = this.#config;
    const residuals = this.#refinerPlaces.map(() => x);
    return { picture: x, sample: stack ? x : undefined, residuals };
  }

  refine(embedded: Tensor, own: Places): RefinedPicture {
    const config = this.#config;
    const embedder = { weights: this.#scopes.control, name: `control_all_x_embedder.${PATCH_KEY}` };
    const tokens = this.#within("embed", () => {
      const all = embedImage(config, this.#scopes.weights, this.#inputs.picture, embedder);
      return own.split.own(all);
    });
    const stack = config.add_control_noise_refiner;
    if (!stack) {
      const picture = this.#vectors.refiners.reduce(
        (x, _, i) => this.#block("control_noise_refiner", i, x, own),
        tokens,
      );
      return { picture, sample: undefined, residuals: [] };
    }
    let picture = this.#beside(stack, tokens, embedded);
    const residuals: Tensor[] = [];
    for (const i of this.#vectorsOf(stack).keys()) {
      picture = this.#block(stack, i, picture, own);
      if (i < this.#refinerPlaces.length) residuals.push(this.#residual(stack, i, picture));
    }
    return { picture, sample: embedded, residuals };
  }

  withRefiner(
    { sample, residuals, ...given }: RefinedPicture,
    refiner: number,
    run: (sample: Tensor) => Tensor,
  ): RefinedPicture {
    const refined = sample && run(sample);
    const residual = residuals[this.#refinerPlaces.indexOf(refiner)];
    const { scale } = this.#inputs;
    return {
      ...given,
      residuals,
      sample: refined && residual ? steered(refined, residual, scale) : refined,
    };
  }

  join(picture: Tensor, sample: Tensor): Tensor {
    return this.#beside("control_layers", picture, sample);
  }

  afterLayer({ x, control }: Steering, layer: number, joint: Places): Steering {
    const place = this.#config.control_layers_places.indexOf(layer);
    if (place < 0) return { x, control };
    const next = this.#block("control_layers", place, control!, joint);
    const residual = this.#residual("control_layers", place, next);
    return { x: steered(x, residual, this.#inputs.scale), control: next };
  }

  get #refinerPlaces(): readonly number[] {
    const { add_control_noise_refiner: stack, control_refiner_layers_places: places } =
      this.#config;
    return stack ? (places ?? []).slice(0, this.#vectorsOf(stack).length) : [];
  }

  #vectorsOf(stack: string): readonly BlockModulation[] {
    const { refiners, layers } = this.#vectors;
    return stack === "control_layers" ? layers : refiners;
  }

  #beside(stack: string, picture: Tensor, own: Tensor): Tensor {
    const first = this.#scopes.control.scope(stack).scope(0);
    return this.#within(
      stack,
      () => linearLayer(first, "before_proj", picture, this.#config.dim, { residual: own }),
    );
  }

  #block(stack: string, i: number, x: Tensor, { rotary, split }: Places): Tensor {
    const block = this.#scopes.control.scope(stack).scope(i);
    const vectors = this.#vectorsOf(stack)[i]!;
    return this.#within(
      `${stack}.${i}`,
      () => zImageBlock(this.#config, block, x, rotary, vectors, split),
    );
  }

  #residual(stack: string, i: number, x: Tensor): Tensor {
    const block = this.#scopes.control.scope(stack).scope(i);
    return this.#within(
      `${stack}.${i}`,
      () => linearLayer(block, "after_proj", x, this.#config.dim),
    );
  }

  #within<T>(name: string, trace: () => T): T {
    return this.#graph.scope(`controlnet.${name}`, trace);
  }
}

/** Weight of a picture where a request says none; that of diffusers. */
const USUAL_SCALE = 0.75;

interface ControlBranch {
  table(embedding: Tensor): Tensor;
  residuals(table: DeviceTensor, pass: ControlledPass): ZImageControl;
  run(work: Work): Promise<void>;
}

export function traceControlBranch(
  session: Session,
  { controlnet: { config, weights }, transformer, vae }: {
    readonly controlnet: Component<ZImageControlNetConfig>;
    readonly transformer: Component<ZImageTransformerConfig>;
    readonly vae: Component<KlVaeConfig>;
  },
  size: TiledSize,
  { isMasked, steps }: { readonly isMasked: boolean; readonly steps: number },
): ControlBranch {
  const scopes = { weights: transformer.weights.root, control: weights.root };
  const encoder = new ImageEncoder(
    session,
    klCodec(vae),
    isMasked ? [size, size] : [size],
    "control",
  );
  const pictures = traceControlPictures(session, encoder, {
    pictures: 1,
    steps,
    usualScale: USUAL_SCALE,
    tokens: (latents, kept) => {
      const [picture, image] = latents.map((each) => scaleLatents(vae.config, each));
      const seen = image ? concat([picture!, kept!, image], -1) : picture!;
      return patchesOf(widened(seen, config.control_in_dim));
    },
    cutOut: isMasked ? { hole: 0, size } : undefined,
  });
  return {
    table(embedding) {
      const { weights, control } = scopes;
      return controlTable(transformer.config, weights, control, controlStacks(config), embedding);
    },
    residuals: (table, { sample: { graph }, step }) =>
      new ZImageControl(graph, config, scopes, {
        ...pictures.seen(graph, step)[0]!,
        modulation: gather(graph.use(table), step),
      }),
    run: pictures.run,
  };
}

function widened(latents: Tensor, channels: number): Tensor {
  const shape = [...latents.shape.slice(0, -1), channels - latents.dim(-1)];
  const size = shape.reduce((product, side) => product * side, 1);
  if (size === 0) return latents;
  const zeros = latents.graph.constant("empty", shape, "f32", new Float32Array(size));
  return concat([latents, zeros], -1);
}
