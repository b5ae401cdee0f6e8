/**
 * Videos with their sound by LTX-2 and LTX-2.3: from text, a first frame, a first and a last one, or the end of a video.
 * Source: diffusers `LTX2Pipeline`, `LTX2ImageToVideoPipeline` and `LTX2ConditionPipeline`.
 */
import {
  concat,
  copyTo,
  f32,
  type Graph,
  type Rotation,
  slice,
  type Tensor,
  writing,
} from "../../../runtime/mod.ts";
import { AUDIO_SCALE, audioRate } from "../../autoencoders/ltx2/audio_config.ts";
import { ltx2Scale } from "../../autoencoders/ltx2/video_config.ts";
import { ResultDecoder } from "../../pipeline/decoding.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { ltx2Frames } from "../../pipeline/ltx2_coders.ts";
import { traceLtx2Sound } from "../../pipeline/ltx2_sound.ts";
import { rearrange } from "../../rearrange.ts";
import { isFirst } from "../../sharing/ranks.ts";
import { samplingOf } from "../../schedulers/mod.ts";
import {
  checkLtx2Guidance,
  isPromptGuided,
  ltx2CombinedGuidance,
  ltx2Guidance,
  ltx2Passes,
  stgBlocks,
} from "./guidance.ts";
import { givenOf, traceLtx2Given, withGiven } from "./given.ts";
import { LTX2_FILES } from "./layouts.ts";
import { type Ltx2Times, ltx2Times, MODALITIES } from "./modulation.ts";
import { ORIGINAL_LTX2 } from "./names.ts";
import { Ltx2Noise } from "./noise.ts";
import { isDistilled, LTX2_PARTS, ltx2Info } from "./parts.ts";
import { type Ltx2Positions, ltx2Positions, POSITIONS, videoTokens } from "./positions.ts";
import { ltx2Schedule, soundLatents } from "./schedule.ts";
import { traceLtx2Prompts } from "./text.ts";
import { ltx2Transformer } from "./transformer.ts";
import { streamOf } from "./config.ts";

export const LTX2 = defineFamily({
  classNames: ["LTX2Pipeline", "LTX2ImageToVideoPipeline", "LTX2ConditionPipeline"],
  files: LTX2_FILES,
  parts: LTX2_PARTS,
  lora: { transformer: { family: "LTX-2", layouts: [ORIGINAL_LTX2] }, textEncoder: "Gemma 3" },

  info: ltx2Info,

  check(request, { transformer, connectors: { config } }) {
    checkLtx2Guidance(request, transformer.config);
    const [temporal] = transformer.config.vae_scale_factors;
    if ((request.images?.length ?? 0) > 1 && request.numFrames <= temporal) {
      throw new RangeError(
        `Cannot begin and end ${request.numFrames} frames with an image each: ask for ${
          temporal + 1
        } or more`,
      );
    }
    const { maxSequenceLength: tokens } = request;
    const registers = MODALITIES.map((modality) =>
      config[`${modality}_connector_num_learnable_registers`]
    );
    const uneven = registers.find((count) => tokens !== undefined && tokens % count !== 0);
    if (uneven === undefined) return;
    throw new RangeError(
      `Cannot use a maxSequenceLength of ${tokens}: registers fill prompts up, and it must be a multiple of their number, ${uneven}`,
    );
  },

  prompts: (request) =>
    (isPromptGuided(request) ? [request.prompt, request.negativePrompt] : [request.prompt])
      .map((text) => text.trim()),

  shapeOf(request, parts, { lengths, maxLength }, { defaults }) {
    const { transformer, vae, audioVae } = parts;
    const { width, height, numFrames, fps = defaults.fps } = request;
    const { spatial, temporal } = ltx2Scale(vae.config);
    const grid = {
      frames: (numFrames - 1) / temporal + 1,
      rows: height / spatial,
      columns: width / spatial,
    };
    const given = givenOf(request, grid, temporal);
    const longest = Math.max(...lengths);
    const shape = {
      grid,
      fps,
      sound: soundLatents(numFrames, fps, audioRate(audioVae.config)),
      hasSound: request.enableAudio !== false,
      given,
      /** Of a first frame alone the noise is that of latents, as without one. */
      drawsTokens: request.task === "F2V" || given.hasLast,
      steps: request.numInferenceSteps,
      isDistilled: isDistilled(parts),
      prompts: lengths.length,
      /** Tokens that all prompts are encoded with, and those that the transformer sees of each. */
      rows: Math.min(maxLength, Math.max(16, 2 ** Math.ceil(Math.log2(longest)))),
      tokens: maxLength,
      guided: ltx2Passes(request, transformer.config),
      perturbed: stgBlocks(request),
      ...samplingOf(request),
    };
    return {
      shape,
      latents: [{ height: grid.rows, width: grid.columns }],
      smallestTile: 256 / spatial,
    };
  },

  trace(session, parts, shape) {
    const { transformer, vae, scheduler } = parts;
    const { grid, fps, sound, guided, given, tileSide } = shape;
    const { config, weights: { root: weights } } = transformer;
    const area = grid.rows * grid.columns;
    const count = videoTokens(grid);
    /** Tokens of the image that the video ends with. */
    const ends = given.hasLast ? area : 0;
    const schedule = ltx2Schedule(scheduler, count + ends, shape.steps, shape);
    const size = { frames: grid.frames, height: grid.rows, width: grid.columns, tileSide };
    const { in_channels: channels, vae_scale_factors: [temporal] } = config;
    const { latent_channels, mel_bins } = parts.audioVae.config;

    // 1. Encode: what is given beside the prompts; the prompts.
    const encoded = traceLtx2Given(session, parts, shape, temporal);
    const isGiven = given.first > 0;
    const text = traceLtx2Prompts(session, parts, shape);

    // 2. Noise of both, as tokens one after the other; all timesteps; where tokens are.
    const source = shape.drawsTokens
      ? new Ltx2Noise([1, count + ends, channels], [1, sound, channels])
      : new Ltx2Noise(
        [1, channels, grid.frames, grid.rows, grid.columns],
        [1, latent_channels, sound, mel_bins / AUDIO_SCALE],
      );
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      { noise: f32(source.size), ...encoded.latents },
      ({ noise, first, last }, graph) => {
        // What is given is at timestep 0.
        const times = ltx2Times(
          ...[graph, config, weights, [...schedule.timesteps], isGiven ? [0] : []] as const,
        );
        return {
          sample: source.arrange(noise),
          first: first?.reshape(1, -1, channels),
          last: last?.reshape(1, -1, channels),
          times: MODALITIES.map((modality) => {
            const { text, ...others } = times[modality];
            return text ? { ...others, text } : others;
          }),
        };
      },
    );
    const positions = POSITIONS.map((kind) => {
      const isVideo = kind.startsWith("video");
      const dim = kind.endsWith("Cross")
        ? config.audio_cross_attention_dim
        : streamOf(config, isVideo ? "video" : "audio").dim;
      const table = [isVideo ? count + ends : sound, dim / 2];
      return {
        cos: session.tensor(`${kind} cos`, table),
        sin: session.tensor(`${kind} sin`, table),
      };
    });

    // 3. Denoise: passes of the transformer for the prompts and for further guidance, the solver.
    const { sample, first, last, times } = begin.outputs;
    const loop = session.stage("denoise", { repeats: schedule.timesteps.length });
    const steps = schedule.timesteps.length;
    const shown = ltx2Frames(vae, { ...size, frames: 1 });
    // Of the frames that are made the first.
    const frame = Math.min(given.first, grid.frames - 1);
    const denoiser = traceDenoiser(loop, shape, {
      schedule,
      sample,
      noise: { shape: [source.size], arrange: (noise) => source.arrange(noise) },
      passes: guided.map((kind) => ({
        context: [text.context[kind === "negative" ? 1 : 0]!],
        positions,
        times,
        first,
        last,
      })),
      step: { shape: [isGiven ? 2 : 1], values: (i) => isGiven ? [i, steps] : [i] },
      predict: (
        { sample, step, context: [context], positions, times, ...clean },
        graph,
        { pass },
      ) => {
        const x = withGiven(sample, clean, count);
        const at = Object.fromEntries(POSITIONS.map((kind, i) => [kind, positions[i]!]));
        const outputs = ltx2Transformer(graph, config, weights, {
          sample: { video: slice(x, 1, 0, count + ends), audio: slice(x, 1, count + ends) },
          context: context!,
          positions: at as unknown as Ltx2Positions<Rotation>,
          times: { video: times[0]!, audio: times[1]! } as Ltx2Times<Tensor>,
          step: slice(step, 0, 0, 1),
          ...(isGiven && {
            videoSteps: step,
            tokenTimes: tokenTimes(graph, given.first * area, count, ends),
          }),
          perturbed: guided[pass] === "perturbed" ? shape.perturbed : [],
          isIsolated: guided[pass] === "isolated",
        });
        return concat([outputs.video, outputs.audio], 1);
      },
      guidance: guided.length > 1
        ? ltx2CombinedGuidance(guided.length, { video: count, ends }, { first, last })
        : undefined,
      preview: {
        decoder: shown.decoder,
        part: (x) => slice(x, 1, frame * area, (frame + 1) * area),
        decoded: (part) => shown.scaled(part.reshape(1, grid.rows, grid.columns, channels)),
      },
    });

    // 4. Decode: the sound, then frame by frame.
    const heard = shape.hasSound && isFirst(session.ranks)
      ? traceLtx2Sound(session, parts, sound)
      : undefined;
    const soundTokens = heard?.stage.program("sound tokens", { sample }, ({ sample }) => {
      copyTo(slice(sample, 1, count + ends).reshape(sound, channels), heard.input);
    });
    const { decoder, scaled } = ltx2Frames(vae, size);
    const result = new ResultDecoder(session, { sample, first }, decoder, ({ sample, first }) => {
      const video = slice(withGiven(sample, { first }, count), 1, 0, count)
        .reshape(grid.frames, grid.rows, grid.columns, channels);
      return { decoded: scaled(video), latents: rearrange(video, "f y x c -> 1 c f y x") };
    });

    return async (work) => {
      const { request } = work;
      const draw = source.draw(request.seed);
      const noise = draw();
      const tables = ltx2Positions(config, grid, sound, fps, given.hasLast);
      await encoded.run(work);
      await text.run(work);
      await work.run([
        ...POSITIONS.flatMap((kind, i) => [
          writing(positions[i]!.cos, tables[kind].cos),
          writing(positions[i]!.sin, tables[kind].sin),
        ]),
        begin.call({ noise }),
      ]);
      const guidance = ltx2Guidance(request, config, guided, schedule.sigmas);
      await denoiser.run(work, guidance, draw, { noise });
      if (!work.control.isLatent) await heard?.run(work, [soundTokens!.call({})]);
      await result.run(work);
    };
  },
});

/** Which tokens of the video are at timestep 0, u32 [1, tokens]: the first ones, and those of the image that it ends with. */
function tokenTimes(graph: Graph, first: number, count: number, ends: number): Tensor {
  const values = Uint32Array.from(
    { length: count + ends },
    (_, i) => Number(i < first || i >= count),
  );
  return graph.constant("token times", [1, values.length], "u32", values);
}
