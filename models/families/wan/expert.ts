/** A transformer and its share of the steps, in stages of its own: of Wan 2.2 A14B's two, one is on the device at a time. */
import { copyTo, type DeviceTensor, type Graph, slice, type Tensor } from "../../../runtime/mod.ts";
import { wanFrames } from "../../pipeline/wan_coders.ts";
import { timestepConstant } from "../../blocks/embeddings.ts";
import type { Session, Stage } from "../../memory/session.ts";
import type { Component } from "../../pipeline/components.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import type { CommonShape } from "../../pipeline/family.ts";
import {
  cfgZeroStar,
  classifierFree,
  skipLayersOf,
  withSkippedLayers,
  ZERO_STAR_GUIDANCE,
} from "../../pipeline/guidance.ts";
import { sparedSteps, teaCacheOf } from "./teacache.ts";
import type { Pass } from "../../pipeline/passes.ts";
import type { Work } from "../../pipeline/work.ts";
import type { Schedule } from "../../schedulers/mod.ts";
import type { StepRange } from "../../schedulers/solver.ts";
import { besideSample } from "./channels.ts";
import type { WanParts, WanTransformerConfig } from "./config.ts";
import { wanImageStates, wanTextStates } from "./context.ts";
import { framesBefore, type Given, type GivenShape, isRedrawing } from "./given.ts";
import { modulationIndices, tableRows, timestepRows, tokenTimesteps } from "./modulation.ts";
import {
  ORIGIN,
  patchFeatures,
  patchify,
  tokenCount,
  type TokenGrid,
  unpatchify,
  withFirstFrames,
} from "./patches.ts";
import { framesApart } from "./relatives.ts";
import { wanTransformer } from "./transformer.ts";
import { hiddenSize } from "../../config.ts";

type PassContext = {
  readonly blocks: readonly { readonly key: DeviceTensor; readonly value: DeviceTensor }[];
  /** u32: rows to attend. */
  readonly lengths: DeviceTensor;
  /** Added to the logit of the last. */
  readonly padLogit: DeviceTensor;
};

interface ExpertOptions {
  /** What its stages are called besides `context` and `denoise`; empty for the first, whose context is there. */
  readonly suffix: string;
  readonly transformer: Component<WanTransformerConfig>;
  readonly vae: WanParts["vae"];
  readonly tinyDecoder: WanParts["tinyDecoder"];
  readonly schedule: Schedule;
  readonly range: StepRange;
  readonly isAlone: boolean;
  /** The noisy latents, [1, tokens, features]. */
  readonly sample: DeviceTensor;
  readonly history: readonly DeviceTensor[];
  readonly latents: readonly number[];
  readonly grid: TokenGrid;
  readonly text: { readonly states: DeviceTensor; readonly context: readonly PassContext[] };
  readonly given: Given;
}

type ExpertShape = CommonShape & GivenShape & {
  readonly riflex: boolean;
  readonly skipped?: readonly number[] | undefined;
  readonly usesZeroStar: boolean;
  readonly rate?: 0 | 1 | undefined;
};

type PassInputs = PassContext & Given["tokens"] & {
  readonly images:
    | readonly { readonly key: DeviceTensor; readonly value: DeviceTensor }[]
    | undefined;
  readonly timesteps: DeviceTensor;
};

export interface WanExpert {
  readonly stage: Stage;
  run(
    work: Work,
    guidanceScale: number,
    noise: Float32Array,
    draw: () => Float32Array,
  ): Promise<void>;
}

export function traceExpert(
  session: Session,
  shape: ExpertShape,
  options: ExpertOptions,
): WanExpert {
  const { transformer: { config, weights: { root: weights } }, given, grid } = options;
  const { suffix, text, schedule, range, vae, tinyDecoder } = options;
  const context = suffix ? traceContext(session, options) : undefined;
  const images = given.imageStates && session.stage("denoise", { name: `images${suffix}` })
    .program(
      "images",
      { states: given.imageStates },
      ({ states }) => wanImageStates(config, weights, states),
    );
  const stage = session.stage("denoise", {
    name: `denoise${suffix}`,
    repeats: range[1] - range[0],
  });
  // A given first frame is at timestep 0.
  const { first } = given.tokens;
  const times = first ? [...schedule.timesteps, 0] : [...schedule.timesteps];
  const timesteps = stage.program(
    "timesteps",
    {},
    (_, graph: Graph) =>
      timestepRows(
        weights,
        timestepConstant(graph, times, config.freq_dim),
        hiddenSize(config),
        shape.rate,
      ),
  );
  const before = [context, images].filter((program) => program !== undefined);
  const { scale_factor_spatial: spatial } = vae.config;
  const cache = options.isAlone && !first
    ? teaCacheOf(config, shape.height * shape.width * spatial ** 2)
    : undefined;
  if (cache) stage.willRead(timesteps.outputs);
  const shown = wanFrames({ vae, tinyDecoder }, { ...shape, frames: 1 });
  const frameGrid = { ...grid, frames: 1 };
  const steps = schedule.timesteps.length;
  const denoiser = traceDenoiser<PassInputs>(stage, shape, {
    schedule,
    sample: options.sample,
    range,
    history: options.history,
    noise: { shape: options.latents, arrange: (noise) => patchify(config, noise) },
    kept: given.kept,
    passes: [...text.context, ...shape.skipped ? text.context.slice(0, 1) : []].map((own) => ({
      ...own,
      ...given.tokens,
      timesteps: timesteps.outputs,
      images: images?.outputs,
    })),
    step: {
      shape: [tableRows(config), first ? 2 : 1],
      values: (i) => modulationIndices(config, first ? [steps, i] : [i]),
    },
    predict: (
      { sample, step, timesteps, first, channels, control, scales, ...context },
      graph,
      { pass },
    ) =>
      wanTransformer(graph, config, weights, {
        grid,
        timesteps,
        context,
        modulationIndices: step,
        riflex: shape.riflex,
        ...(isRedrawing(shape.given) &&
          { origin: { ...ORIGIN, stride: framesApart(config, grid) } }),
        ranks: session.ranks,
        skipped: pass === text.context.length ? shape.skipped : undefined,
        tokens: channels
          ? besideSample(sample, channels, patchFeatures(config, 1))
          : withFirstFrames(sample, first),
        ...(first && { tokenTimesteps: tokenTimesteps(graph, grid, first.dim(1)) }),
        ...(control && { control: { tokens: control, scales: scales! } }),
      }),
    guidance: shape.usesZeroStar ? ZERO_STAR_GUIDANCE : undefined,
    preview: {
      decoder: shown.decoder,
      part: (x) => {
        const [frame, count] = [firstMade(shape, grid), tokenCount(frameGrid)];
        return slice(x, 1, frame * count, (frame + 1) * count);
      },
      decoded: (part) => shown.scaled(unpatchify(config, part, frameGrid)),
    },
  });

  /** Runs the timesteps; gives the steps that TeaCache spares. */
  const findTimesteps = async (work: Work): Promise<readonly number[] | undefined> => {
    const call = timesteps.call({});
    if (work.request.quality !== "high" || !cache) {
      await work.run([call]);
      return undefined;
    }
    let reused: readonly number[] = [];
    await work.run([call], {
      reads: [timesteps.outputs],
      finished: ([rows]) => {
        reused = sparedSteps(cache, rows!, steps, hiddenSize(config));
      },
    });
    await work.finish();
    return reused;
  };

  return {
    stage,
    async run(work, guidanceScale, noise, draw) {
      if (range[0] === range[1]) return;
      for (const program of before) await work.run([program.call({})]);
      const reused = await findTimesteps(work);
      const skipping = skipLayersOf(work.request);
      const plain = shape.usesZeroStar
        ? cfgZeroStar(guidanceScale)
        : classifierFree(guidanceScale, text.states.shape[0]!);
      // Source: diffusers `SkipLayerGuidance`.
      const guidance = skipping
        ? withSkippedLayers(plain, skipping, [
          Math.floor(skipping.start * steps),
          Math.floor(skipping.stop * steps),
        ])
        : plain;
      await denoiser.run(work, guidance, draw, { noise, reused });
    },
  };
}

/** What this transformer makes of the prompts, in the place of what another expert made of them. */
function traceContext(
  session: Session,
  { suffix, text: { states, context }, transformer: { config, weights } }: ExpertOptions,
): Pass {
  const stage = session.stage("denoise", { name: `context${suffix}` });
  return stage.program("context", { states }, ({ states }) => {
    const blocks = wanTextStates(config, weights.root, states);
    context.forEach((own, pass) =>
      own.blocks.forEach(({ key, value }, i) => {
        copyTo(partOf(blocks[i]!.key, key, pass), key);
        copyTo(partOf(blocks[i]!.value, value, pass), value);
      })
    );
  });
}

function partOf(x: Tensor, target: DeviceTensor, pass: number): Tensor {
  return x.dim(0) === target.shape[0] ? x : slice(x, 0, pass, pass + 1);
}

function firstMade({ given }: GivenShape, { frames }: TokenGrid): number {
  const isSeen = given.kind === "masked" || isRedrawing(given);
  const clean = isSeen ? 1 : given.kind === "first" ? given.frames : 0;
  return Math.min(framesBefore(given) + clean, frames - 1);
}
