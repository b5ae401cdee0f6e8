/**
 * ControlNets of Stable Diffusion 3: blocks see a picture beside the sample; their results are added to the transformer's.
 * Source: diffusers `SD3ControlNetModel`, whose module names are the weight names.
 */
import {
  concat,
  elementwise,
  type Graph,
  type Stored,
  type Tensor,
  tensorsIn,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { scaleLatents } from "../../autoencoders/kl/posterior.ts";
import type { TiledSize } from "../../autoencoders/tiled_coder.ts";
import { linearLayer } from "../../blocks/layers.ts";
import { hiddenSize } from "../../config.ts";
import type { Session } from "../../memory/session.ts";
import {
  type ControlledPass,
  type ControlState,
  type SeenPicture,
  type Steering,
  steering,
  traceControlPictures,
} from "../../pipeline/control.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { klCodec } from "../../pipeline/kl_coders.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import type { Work } from "../../pipeline/work.ts";
import { rearrange } from "../../rearrange.ts";
import type { TokenSplit } from "../../sharing/token_split.ts";
import { PATCH_SIDE, type Sd3ControlNetConfig, type Sd3Parts } from "./config.ts";
import { type BlockTables, blockTables } from "./modulation.ts";
import { type JointStreams, patchLayer, sd3Block, sd3Context, sd3Embedded } from "./transformer.ts";

interface ControlSteps {
  readonly begin: ControlState<JointStreams>;
  readonly after: Steering<JointStreams>;
}

export type ControlResiduals = (split: TokenSplit, blocks: number) => ControlSteps;

/** Pictures are patches; a mask is one more channel. */
interface ControlInputs extends SeenPicture {
  /** Prompt from `sd3Context()` with the ControlNet's weights, [1, text tokens, dim]; some see none. */
  readonly context: Tensor | undefined;
  /** Latents as patches, [1, tokens, features]. */
  readonly sample: Tensor;
  readonly grid: TokenGrid;
  readonly tables: readonly BlockTables[];
  /** Row of them, u32 [1]. */
  readonly step: Tensor;
}

/** `embed` makes tokens of the sample: the transformer's layer, where a ControlNet has none of its own. */
export function sd3Control(
  graph: Graph,
  config: Sd3ControlNetConfig,
  weights: WeightScope,
  { context, sample, picture, scale, grid, tables, step }: ControlInputs,
  embed: (split: TokenSplit) => Tensor = (split) =>
    sd3Embedded(graph, config, weights, { sample, grid, split }),
): ControlResiduals {
  const dim = hiddenSize(config);
  const within = <T>(trace: () => T) => graph.scope("controlnet", trace);
  return (outer, blocks) => {
    const split = outer.like([...context ? [context.dim(1)] : [], sample.dim(1)]);
    const image = within(() =>
      elementwise("x + p", {
        x: embed(split),
        p: patchLayer(weights.scope("pos_embed_input"), split.own(picture), dim),
      })
    );
    const text = context && split.own(context);
    const residuals = tables.length;
    return {
      begin: { own: { image, text }, residual: outer.ownBeside(image, split) },
      after: steering<JointStreams>(
        ...[{ residuals, blocks, interval: blocks / residuals }, scale] as const,
        (streams, layer) =>
          within(() => {
            const tokens = sample.dim(1);
            const given = { layer, streams, tables: tables[layer]!, step, split, tokens };
            const own = sd3Block(graph, config, weights, given);
            const image = outer.ownBeside(own.image, split);
            return {
              own,
              residual: linearLayer(weights, `controlnet_blocks.${layer}`, image, dim),
            };
          }),
      ),
    };
  };
}

interface ControlBranch {
  /** What it makes of all prompts' states, [prompts, text tokens, joint_attention_dim]. */
  context(states: Tensor): Tensor | undefined;
  /** Of a prompt's summary, [1, pooled_projection_dim]. */
  tables(timesteps: Tensor, pooled: Tensor): BlockTables[];
  residuals(
    context: Stored<Tensor> | undefined,
    tables: Stored<readonly BlockTables[]>,
    pass: ControlledPass,
  ): ControlResiduals;
  run(work: Work): Promise<void>;
}

/** Stability AI's ControlNet for edges was trained with pixels of 0.5 to 128, by mistake; only its name tells it. */
const EIGHT_BIT = /3\.?5[-_]large[-_]controlnet[-_]canny/i;

export function traceControlBranch(
  session: Session,
  { transformer, vae }: Sd3Parts,
  { config, weights: { root: weights, path } }: NonNullable<Sd3Parts["controlnet"]>,
  { size, steps }: { readonly size: TiledSize; readonly steps: number },
): ControlBranch {
  const isMasked = config.extra_conditioning_channels > 0;
  const seesText = config.joint_attention_dim !== null;
  const codec = klCodec(vae);
  const isEightBit = !seesText && EIGHT_BIT.test(path);
  const encoder = new ImageEncoder(
    session,
    {
      ...codec,
      encode: (graph, pixels) =>
        codec.encode!(
          graph,
          isEightBit ? elementwise("63.75 * p + 64.25", { p: pixels }) : pixels,
        ),
    },
    [size],
    "control",
  );
  const shift = config.force_zeros_for_pooled_projection && !isMasked ? { shift_factor: 0 } : {};
  const patches = { i: PATCH_SIDE, j: PATCH_SIDE };
  const pictures = traceControlPictures(session, encoder, {
    pictures: 1,
    steps,
    tokens([drawn], kept) {
      const latents = scaleLatents({ ...vae.config, ...shift }, drawn!);
      const seen = kept ? concat([latents, kept], -1) : latents;
      return rearrange(seen, "1 (y i) (x j) c -> 1 (y x) (i j c)", patches);
    },
    cutOut: isMasked ? { hole: -1, size } : undefined,
  });
  return {
    context: (states) => (seesText ? sd3Context(config, weights, states) : undefined),
    tables(timesteps, pooled) {
      const seen = config.force_zeros_for_pooled_projection
        ? pooled.graph.constant("zeros", pooled.shape, "f32", new Float32Array(pooled.size))
        : pooled;
      return blockTables(config, weights, timesteps, seen);
    },
    residuals(context, tables, pass) {
      const { sample: { graph }, sample, grid } = pass;
      const inputs = {
        ...pass,
        ...pictures.seen(graph, pass.step)[0]!,
        context: context && tensorsIn<Tensor>(graph, context),
        tables: tensorsIn<readonly BlockTables[]>(graph, tables),
      };
      const base = transformer.weights.root;
      const embed = (split: TokenSplit) =>
        sd3Embedded(graph, transformer.config, base, { sample, grid, split });
      return config.use_pos_embed
        ? sd3Control(graph, config, weights, inputs)
        : sd3Control(graph, config, weights, inputs, embed);
    },
    run: pictures.run,
  };
}
