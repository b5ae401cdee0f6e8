/**
 * ControlNets of FLUX.1: copies of blocks see a picture beside the sample; their results are added to the blocks'.
 * Source: diffusers `FluxControlNetModel`, whose module names are the weight names.
 */
import {
  concat,
  type DeviceTensor,
  elementwise,
  gather,
  type Graph,
  slice,
  type Stored,
  type Tensor,
  tensorsIn,
  type WeightScope,
  writing,
} from "../../../runtime/mod.ts";
import type { KlVaeConfig } from "../../autoencoders/kl/config.ts";
import { packLatents } from "../../autoencoders/kl/packing.ts";
import { scaleLatents } from "../../autoencoders/kl/posterior.ts";
import type { TiledSize } from "../../autoencoders/tiled_coder.ts";
import type { Streams } from "../../blocks/double_stream.ts";
import { linearLayer } from "../../blocks/layers.ts";
import type { Session } from "../../memory/session.ts";
import type { Component } from "../../pipeline/components.ts";
import {
  type ControlledPass,
  type ControlState,
  type SeenPicture,
  type Steering,
  steering,
  traceControlPictures,
} from "../../pipeline/control.ts";
import { controlUnits } from "../../pipeline/control_units.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { klCodec } from "../../pipeline/kl_coders.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import type { Work } from "../../pipeline/work.ts";
import type { TokenSplit } from "../../sharing/token_split.ts";
import { Flux1Blocks, flux1Prompt, positions, type PromptParts } from "./blocks.ts";
import { controlModes, type Flux1ControlNetConfig } from "./config.ts";
import {
  type BlockModulation,
  blockModulationOf,
  type BlockTables,
  blockTables,
  type Times,
} from "./modulation.ts";
import { hiddenSize } from "../../config.ts";

/** Pictures are packed. */
interface ControlInputs extends SeenPicture {
  /** Prompt from `flux1Context()` with the ControlNet's weights: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Packed latents, [1, tokens, features]. */
  readonly sample: Tensor;
  /** Kind of the picture, u32 [1]; not where all are alike. */
  readonly mode?: Tensor | undefined;
  readonly grid: TokenGrid;
  readonly modulation: BlockModulation;
}

export interface ControlSteps {
  readonly begin: ControlState<Streams<Tensor>>;
  readonly double: Steering<Streams<Tensor>>;
  single(own: Streams<Tensor>, x: Tensor): ControlState<Tensor> | undefined;
  readonly singles: Steering<Tensor>;
}

export type ControlResiduals = (
  split: TokenSplit,
  textTokens: number,
  blocks: { readonly double: number; readonly single: number },
) => ControlSteps;

export function flux1Control(
  graph: Graph,
  config: Flux1ControlNetConfig,
  weights: WeightScope,
  { context, sample, picture, mode, scale, grid, modulation }: ControlInputs,
): ControlResiduals {
  const dim = hiddenSize(config);
  const { num_layers: doubles, num_single_layers: singles } = config;
  const within = <T>(trace: () => T) => graph.scope("controlnet", trace);
  const residual = (name: string, layer: number, x: Tensor) =>
    linearLayer(weights.scope(name), String(layer), x, dim);
  return (outer, textTokens, count) => {
    const text = mode ? within(() => withMode(graph, config, weights, mode, context)) : context;
    const split = outer.like([text.dim(1), sample.dim(1)]);
    const own = split.ownCount(text.dim(1));
    const blocks = new Flux1Blocks(graph, config, weights, {
      textTokens: text.dim(1),
      places: positions(text.dim(1), [grid]),
      modulation,
      split,
    });
    const image = within(() =>
      linearLayer(weights, "controlnet_x_embedder", split.own(picture), dim, {
        residual: linearLayer(weights, "x_embedder", split.own(sample), dim),
      })
    );
    const double = steering<Streams<Tensor>>(
      ...[{ residuals: doubles, blocks: count.double }, scale] as const,
      (streams, layer) =>
        within(() => {
          const own = blocks.double(streams, layer);
          return { own, residual: residual("controlnet_blocks", layer, own.image) };
        }),
    );
    const asked = Math.ceil(count.double / Math.ceil(count.double / doubles));
    return {
      begin: { own: { text: split.own(text), image }, residual: image },
      double: (given, block) => {
        const { x, control } = double(given, block);
        if (block < count.double - 1 || singles === 0) return { x, control };
        // Those that no block of the transformer asked for.
        let { own } = control!;
        for (let layer = asked; layer < doubles; layer++) {
          own = within(() => blocks.double(own, layer));
        }
        return { x, control: { ...control!, own } };
      },
      single: ({ text, image }, x) =>
        singles > 0 ? { own: concat([text, image], 1), residual: x } : undefined,
      singles: steering(
        ...[{ residuals: singles, blocks: count.single }, scale] as const,
        (x, layer) =>
          within(() => {
            const next = blocks.single(x, layer);
            const image = slice(next, 1, own, next.dim(1));
            // The text stays as it is.
            const text = slice(next, 1, 0, outer.ownCount(textTokens));
            const nothing = elementwise("0.0 * x", { x: text });
            const added = residual("controlnet_single_blocks", layer, image);
            return { own: next, residual: concat([nothing, added], 1) };
          }),
      ),
    };
  };
}

function withMode(
  graph: Graph,
  config: Flux1ControlNetConfig,
  weights: WeightScope,
  mode: Tensor,
  context: Tensor,
): Tensor {
  const dim = hiddenSize(config);
  const modes = weights.tensor(graph, "controlnet_mode_embedder.weight", [config.num_mode!, dim]);
  return concat([gather(modes, mode).reshape(1, 1, dim), context], 1);
}

interface Controls {
  /** What each ControlNet makes of the first prompt, of the states of T5 and what CLIP sums up; it sees no other. */
  prompts(states: Tensor, pooled: Tensor): PromptParts[];
  tables(times: Omit<Times, "summary">, summaries: readonly Tensor[]): BlockTables[];
  /** Of each picture. */
  residuals(
    contexts: readonly DeviceTensor[],
    tables: readonly Stored<BlockTables>[],
    pass: ControlledPass,
  ): ControlResiduals[];
  /** `noise` is that of each picture. */
  run(work: Work, noise: readonly Float32Array[]): Promise<void>;
}

/** @param shown the ControlNet of each picture; one may see several */
export function traceControls(
  session: Session,
  shown: readonly Component<Flux1ControlNetConfig>[],
  vae: Component<KlVaeConfig>,
  { latents, size, steps }: {
    readonly latents: readonly number[];
    readonly size: TiledSize;
    readonly steps: number;
  },
): Controls {
  const nets = [...new Set(shown)];
  const encoder = new ImageEncoder(session, klCodec(vae), shown.map(() => size), "control");
  const pictures = traceControlPictures(session, encoder, {
    pictures: shown.length,
    steps,
    noise: latents,
    tokens: ([drawn]) => packLatents(scaleLatents(vae.config, drawn!)),
  });
  const modes = shown.map(({ config }, i) => {
    const names = controlModes(config);
    return names && { names, mode: session.tensor(`control mode ${i}`, [1], "u32") };
  });
  return {
    prompts(states, pooled) {
      const first = (x: Tensor) => slice(x, 0, 0, 1);
      return nets.map(({ config, weights: { root } }) =>
        flux1Prompt(config, root, first(states), first(pooled))
      );
    },
    tables: (times, summaries) =>
      nets.map(({ config, weights: { root } }, i) =>
        blockTables(config, root, { ...times, summary: summaries[i]! })
      ),
    residuals(contexts, tables, { sample, step, grid }) {
      const { graph } = sample;
      const seen = pictures.seen(graph, step);
      return shown.map((net, i) => {
        const { config, weights: { root } } = net;
        const own = nets.indexOf(net);
        const vectors = tensorsIn<BlockTables>(graph, tables[own]!);
        return flux1Control(graph, config, root, {
          ...seen[i]!,
          sample,
          grid,
          context: graph.use(contexts[own]!),
          mode: modes[i] && graph.use(modes[i].mode),
          modulation: blockModulationOf(vectors, step, hiddenSize(config)),
        });
      });
    },
    async run(work, noise) {
      await pictures.run(work, noise);
      const units = controlUnits(work.request);
      await work.run(
        modes.flatMap((own, i) =>
          own ? [writing(own.mode, [own.names.indexOf(units[i]!.mode!)])] : []
        ),
      );
    },
  };
}
