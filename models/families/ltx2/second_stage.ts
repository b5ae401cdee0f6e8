/**
 * The second of two stages: a smaller video is enlarged by the latent upsampler, and the last noise levels follow once
 * more, for the sound as well.
 * Source: diffusers `LTX2LatentUpsamplePipeline` and what its documentation does with it.
 */
import { type DeviceTensor, slice } from "../../../runtime/mod.ts";
import { ltx2LatentUpsampler } from "../../autoencoders/ltx2/latent_upsampler.ts";
import { scaleVideoLatents, unscaleVideoLatents } from "../../autoencoders/ltx2/video_coder.ts";
import type { Session } from "../../memory/session.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import type { Work } from "../../pipeline/work.ts";
import type { TorchGenerator } from "../../schedulers/noise.ts";
import type { Ltx2TransformerConfig } from "./config.ts";
import { type Ltx2Loop, madeVideo, traceLtx2Loop } from "./denoising.ts";
import { traceLtx2Given } from "./encode_given.ts";
import type { Ltx2Noise } from "./noise.ts";
import type { Ltx2Parts } from "./parts.ts";
import { videoTokens } from "./positions.ts";
import { secondSchedule } from "./schedule.ts";
import type { Both } from "./transformer.ts";

export function checkTwoStages(
  { width, height }: PipelineRequest,
  { vae_scale_factors: [, latent] }: Pick<Ltx2TransformerConfig, "vae_scale_factors">,
  scale: number,
): void {
  // Latents of both stages are whole ones.
  const multiple = latent * (Number.isInteger(scale) ? scale : 2 * scale);
  // The autoencoder mirrors edges in the first stage, too.
  const least = Math.ceil(2 * latent * scale / multiple) * multiple;
  const fits = (side: number) => side % multiple === 0 && side >= least;
  if (fits(height) && fits(width)) return;
  throw new RangeError(
    `Cannot make ${width}x${height} with twoStages: sides must be multiples of ${multiple}, from ${least}`,
  );
}

type LoopShape = Parameters<typeof traceLtx2Loop>[2];

export function traceSecondStage(
  session: Session,
  parts: Pick<Ltx2Parts, "transformer" | "transformer2" | "vae" | "latentUpsampler">,
  { shape, before, loop, noise, context, heard, temporal }: {
    readonly shape: LoopShape & Parameters<typeof secondSchedule>[0] & { readonly steps: number };
    /** That of the first stage. */
    readonly before: LoopShape;
    readonly loop: Ltx2Loop;
    readonly noise: Ltx2Noise;
    readonly context: readonly Both<DeviceTensor>[];
    readonly heard: DeviceTensor | undefined;
    readonly temporal: number;
  },
): {
  readonly loop: Ltx2Loop;
  run(work: Work, generator: TorchGenerator): Promise<void>;
} {
  const { vae: { config, weights: { root } } } = parts;
  const { config: upsampling, weights: { root: upsampler } } = parts.latentUpsampler!;
  const { frames, rows, columns } = before.grid;
  const { sample, first, soundStart } = loop;
  const stage = session.stage("denoise", { name: "enlarge" });
  const enlarge = stage.program("enlarge", { sample, first }, (given, graph) => {
    const made = madeVideo(given, before).reshape(frames, rows, columns, -1);
    const small = unscaleVideoLatents(config, root, made);
    const large = ltx2LatentUpsampler(graph, upsampling, upsampler, small);
    return {
      video: scaleVideoLatents(config, root, large).reshape(1, videoTokens(shape.grid), -1),
      sound: slice(given.sample, 1, soundStart),
    };
  });
  const encoded = traceLtx2Given(session, parts, shape, temporal);
  const { transformer2: transformer = parts.transformer } = parts;
  const second = traceLtx2Loop(
    session,
    { ...parts, transformer },
    { ...shape, guided: ["prompt"] },
    {
      suffix: " 2",
      schedule: secondSchedule(shape),
      noise,
      encoded,
      heard,
      context,
      clean: enlarge.outputs,
      others: { before: shape.steps, after: 0 },
    },
  );
  return {
    loop: second,
    async run(work, generator) {
      if (!work.attempt.denoised) await work.run([enlarge.call({})]);
      await encoded.run(work);
      await second.run(work, generator);
    },
  };
}
