/** The steps of a clip: what the driving video is to each block, and the passes for the prompts. */
import type { DeviceTensor, Graph, Tensor, Traced } from "../../../../runtime/mod.ts";
import { HostResult, slice } from "../../../../runtime/mod.ts";
import { wanFrames } from "../../../pipeline/wan_coders.ts";
import { timestepConstant } from "../../../blocks/embeddings.ts";
import type { Variant } from "../../../memory/model_memory.ts";
import type { Session, Stage } from "../../../memory/session.ts";
import { traceDenoiser } from "../../../pipeline/denoiser.ts";
import type { CommonShape } from "../../../pipeline/family.ts";
import type { Guidance } from "../../../pipeline/guidance.ts";
import type { Pass } from "../../../pipeline/passes.ts";
import type { Work } from "../../../pipeline/work.ts";
import { teamsOf } from "../../../sharing/ranks.ts";
import type { Schedule } from "../../../schedulers/mod.ts";
import { besideSample } from "../channels.ts";
import { modulationIndices, tableRows, timestepRows } from "../modulation.ts";
import { patchFeatures, patchify, tokenCount, type TokenGrid, unpatchify } from "../patches.ts";
import type { AnimateParts } from "./config.ts";
import type { ClipShape } from "./given.ts";
import {
  animateTransformer,
  DRIVING_TIMESTEP,
  type DrivingState,
  drivingStates,
  NEGATIVE_SKIPS,
} from "./transformer.ts";
import { hiddenSize } from "../../../config.ts";

type States = readonly { readonly key: DeviceTensor; readonly value: DeviceTensor }[];

type Context = {
  readonly blocks: States;
  readonly lengths: DeviceTensor;
  readonly padLogit: DeviceTensor;
};

type Driving = {
  readonly drivingTokens: DeviceTensor;
  readonly drivingImages: States;
  readonly drivingBlocks: States;
  readonly drivingLengths: DeviceTensor;
  readonly drivingPadLogit: DeviceTensor;
};

interface DenoisingOptions {
  readonly schedule: Schedule;
  /** The noisy latents, [1, tokens, features]. */
  readonly sample: DeviceTensor;
  readonly grid: TokenGrid;
  readonly latents: readonly number[];
  readonly channels: DeviceTensor;
  readonly images: States;
  readonly contexts: readonly Context[];
  readonly driving: Driving;
}

type PassInputs = Context & {
  readonly timesteps: DeviceTensor;
  readonly channels: DeviceTensor;
  readonly images: States;
  /** What each frame of the driving video is to each block; by default, what that is computed from. */
  readonly states: States | undefined;
} & { readonly [Name in keyof Driving]: Driving[Name] | undefined };

const NO_DRIVING: { readonly [Name in keyof Driving]: undefined } = {
  drivingTokens: undefined,
  drivingImages: undefined,
  drivingBlocks: undefined,
  drivingLengths: undefined,
  drivingPadLogit: undefined,
};

function keptFrames(
  { key, value }: DrivingState,
  layer: number,
  tokens: number,
): DrivingState<HostResult> {
  const kept = (x: Tensor, what: string) =>
    new HostResult(x, `driving ${what} ${layer}`, x.shape.with(1, tokens));
  return { key: kept(key, "keys"), value: kept(value, "values") };
}

function framesOf({ key, value }: DrivingState<HostResult>): States {
  const values = value.tensors;
  return key.tensors.map((key, frame) => ({ key, value: values[frame]! }));
}

interface Denoising {
  readonly stage: Stage;
  run(work: Work, guidance: Guidance, draw: () => Float32Array): Promise<void>;
}

/** What the driving video is to each block is kept on the device, or waits in host memory, or is computed again. */
export function traceDenoising(
  session: Session,
  { transformer: { config, weights: { root: weights } }, vae, tinyDecoder }: AnimateParts,
  shape: CommonShape & ClipShape & Variant,
  { schedule, sample, grid, latents, channels, images, contexts, driving }: DenoisingOptions,
): Denoising {
  if (teamsOf(session.ranks).length > 0) {
    throw new RangeError(
      "Cannot share a video of Wan-Animate-2 between GPUs: each clip goes on from the one before; let each GPU make its own",
    );
  }
  const steps = schedule.timesteps.length;
  const stage = session.stage("denoise", { repeats: steps * shape.clips });
  const times = [...schedule.timesteps, DRIVING_TIMESTEP];
  const timesteps = stage.program(
    "timesteps",
    {},
    (_, graph: Graph) =>
      timestepRows(weights, timestepConstant(graph, times, config.freq_dim), hiddenSize(config)),
  );
  const drivingPass = (
    graph: Graph,
    { drivingBlocks: blocks, timesteps, ...given }:
      & Traced<Driving>
      & { readonly timesteps: Tensor },
  ) => ({
    tokens: given.drivingTokens,
    grid: { ...grid, frames: shape.frames },
    timesteps,
    modulationIndices: graph.constant(
      "driving timestep",
      [tableRows(config), 1],
      "u32",
      modulationIndices(config, [steps]),
    ),
    context: {
      blocks,
      images: given.drivingImages,
      lengths: given.drivingLengths,
      padLogit: given.drivingPadLogit,
    },
  });
  const { operands } = shape;
  const frame = { ...grid, frames: 1 };
  const results: DrivingState<HostResult>[] = [];
  const program = shape.passes === "recomputed" ? undefined : stage.program(
    "driving states",
    { ...driving, timesteps: timesteps.outputs },
    (given, graph) => {
      const tokens = tokenCount(frame);
      const keep = (state: DrivingState, layer: number) => keptFrames(state, layer, tokens);
      const inputs = drivingPass(graph, given);
      results.push(...drivingStates(graph, config, weights, inputs, keep));
    },
    { operands },
  );
  const states = program && results.flatMap(framesOf);
  if (shape.passes !== "streamed") {
    for (const { key, value } of states ?? []) stage.tensors.add(key).add(value);
  }
  const shown = wanFrames({ vae, tinyDecoder }, { ...shape, frames: 1 });
  const denoiser = traceDenoiser<PassInputs>(stage, shape, {
    schedule,
    sample,
    noise: { shape: latents, arrange: (noise) => patchify(config, noise) },
    passes: contexts.map((context) => ({
      ...context,
      timesteps: timesteps.outputs,
      channels,
      images,
      ...(states ? { ...NO_DRIVING, states } : { ...driving, states: undefined }),
    })),
    step: {
      shape: [tableRows(config), 1],
      values: (i) => modulationIndices(config, [i]),
    },
    predict: ({ sample, step, timesteps, channels, states, ...given }, graph, { pass }) => {
      const { blocks, images, lengths, padLogit, ...driving } = given;
      const inputs = {
        grid,
        timesteps,
        modulationIndices: step,
        context: { blocks, images, lengths, padLogit },
        tokens: besideSample(sample, channels, patchFeatures(config, 1)),
        skipped: pass === 0 ? undefined : NEGATIVE_SKIPS,
      };
      const seen = states ?? drivingPass(graph, { ...driving as Traced<Driving>, timesteps });
      return animateTransformer(graph, config, weights, inputs, seen);
    },
    preview: {
      decoder: shown.decoder,
      // The first frame of the clip, behind the character's image.
      part: (x) => slice(x, 1, tokenCount(frame), 2 * tokenCount(frame)),
      decoded: (part) => shown.scaled(unpatchify(config, part, frame)),
    },
  });
  const before: Pass[] = [timesteps, ...program ? [program] : []];
  return {
    stage,
    run: async (work, guidance, draw) => {
      for (const program of before) await work.run([program.call({})]);
      await denoiser.run(work, guidance, draw);
    },
  };
}
