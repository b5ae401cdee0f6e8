/**
 * Videos with their sound by LTX-2 and LTX-2.3: from text, or from text and a first frame.
 * Source: diffusers `LTX2Pipeline` and `LTX2ImageToVideoPipeline`.
 */
import {
  concat,
  copyTo,
  f32,
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
import { ltx2Frames, traceLtx2Encoder } from "../../pipeline/ltx2_coders.ts";

import { traceLtx2Sound } from "../../pipeline/ltx2_sound.ts";
import { rearrange } from "../../rearrange.ts";
import { isFirst } from "../../sharing/ranks.ts";
import { samplingOf } from "../../schedulers/mod.ts";
import { TorchGenerator } from "../../schedulers/noise.ts";
import {
  checkLtx2Guidance,
  isPromptGuided,
  ltx2CombinedGuidance,
  ltx2Guidance,
  ltx2Passes,
  stgBlocks,
  withFirst,
} from "./guidance.ts";
import { LTX2_FILES } from "./layouts.ts";
import { type Ltx2Times, ltx2Times, MODALITIES } from "./modulation.ts";
import { ORIGINAL_LTX2 } from "./names.ts";
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
    const longest = Math.max(...lengths);
    const shape = {
      grid,
      fps,
      sound: soundLatents(numFrames, fps, audioRate(audioVae.config)),
      hasSound: request.enableAudio !== false,
      hasFirst: request.task === "I2V",
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
    return { shape, latents: [{ height: grid.rows, width: grid.columns }] };
  },

  trace(session, parts, shape) {
    const { transformer, vae, scheduler } = parts;
    const { grid, fps, sound, guided, tileSide } = shape;
    const { config, weights: { root: weights } } = transformer;
    const schedule = ltx2Schedule(scheduler, videoTokens(grid), shape.steps, shape);
    const count = videoTokens(grid);
    const area = grid.rows * grid.columns;
    const size = { frames: grid.frames, height: grid.rows, width: grid.columns, tileSide };
    const channels = config.in_channels;
    const videoShape = [1, channels, grid.frames, grid.rows, grid.columns];
    const { latent_channels, mel_bins } = parts.audioVae.config;
    const soundShape = [1, latent_channels, sound, mel_bins / AUDIO_SCALE];

    // 1. Encode: the first frame; the prompts.
    const first = shape.hasFirst
      ? traceLtx2Encoder(session, vae, { ...size, frames: 1 })
      : undefined;
    const text = traceLtx2Prompts(session, parts, shape);

    // 2. Noise of both, as tokens one after the other; all timesteps; where tokens are.
    const arrange = (noise: Tensor) => {
      const [video, audio] = [
        slice(noise, 0, 0, count * channels),
        slice(noise, 0, count * channels),
      ];
      return concat([
        rearrange(video.reshape(...videoShape), "1 c f y x -> 1 (f y x) c"),
        rearrange(audio.reshape(...soundShape), "1 c t m -> 1 t (c m)"),
      ], 1);
    };
    const total = (count + sound) * channels;
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      { noise: f32(total), first: first?.latents },
      ({ noise, first }, graph) => {
        const times = ltx2Times(
          ...[graph, config, weights, [...schedule.timesteps], first ? [0] : []] as const,
        );
        return {
          sample: arrange(noise),
          first: first && first.reshape(1, area, channels),
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
      const table = [isVideo ? count : sound, dim / 2];
      return {
        cos: session.tensor(`${kind} cos`, table),
        sin: session.tensor(`${kind} sin`, table),
      };
    });

    // 3. Denoise: passes of the transformer for the prompts and for further guidance, the solver.
    const { sample, first: clean, times } = begin.outputs;
    const loop = session.stage("denoise", { repeats: schedule.timesteps.length });
    const steps = schedule.timesteps.length;
    const shown = ltx2Frames(vae, { ...size, frames: 1 });
    const frame = shape.hasFirst && grid.frames > 1 ? 1 : 0;
    const denoiser = traceDenoiser(loop, shape, {
      schedule,
      sample,
      noise: { shape: [total], arrange },
      passes: guided.map((kind) => ({
        context: [text.context[kind === "negative" ? 1 : 0]!],
        positions,
        times,
        first: clean,
      })),
      step: { shape: [shape.hasFirst ? 2 : 1], values: (i) => shape.hasFirst ? [i, steps] : [i] },
      predict: ({ sample, step, context: [context], positions, times, first }, graph, { pass }) => {
        const x = withFirst(sample, first);
        const at = Object.fromEntries(POSITIONS.map((kind, i) => [kind, positions[i]!]));
        const outputs = ltx2Transformer(graph, config, weights, {
          sample: { video: slice(x, 1, 0, count), audio: slice(x, 1, count) },
          context: context!,
          positions: at as unknown as Ltx2Positions<Rotation>,
          times: { video: times[0]!, audio: times[1]! } as Ltx2Times<Tensor>,
          step: slice(step, 0, 0, 1),
          ...(first && {
            videoSteps: step,
            tokenTimes: graph.constant(
              "token times",
              [1, count],
              "u32",
              Uint32Array.from({ length: count }, (_, i) => Number(i < area)),
            ),
          }),
          perturbed: guided[pass] === "perturbed" ? shape.perturbed : [],
          isIsolated: guided[pass] === "isolated",
        });
        return concat([outputs.video, outputs.audio], 1);
      },
      guidance: guided.length > 1 ? ltx2CombinedGuidance(guided.length, count, clean) : undefined,
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
      copyTo(slice(sample, 1, count).reshape(sound, channels), heard.input);
    });
    const { decoder, scaled } = ltx2Frames(vae, size);
    const result = new ResultDecoder(session, { sample, first: clean }, decoder, (last) => {
      const video = slice(withFirst(last.sample, last.first), 1, 0, count)
        .reshape(grid.frames, grid.rows, grid.columns, channels);
      return { decoded: scaled(video), latents: rearrange(video, "f y x c -> 1 c f y x") };
    });

    return async (work) => {
      const { request } = work;
      const generator = new TorchGenerator(request.seed);
      // The reference draws the noise of the video first.
      const draw = () => {
        const noise = new Float32Array(total);
        noise.set(generator.randn(count * channels));
        noise.set(generator.randn(sound * channels), count * channels);
        return noise;
      };
      const noise = draw();
      const tables = ltx2Positions(config, grid, sound, fps);
      await first?.run(work, { length: 1, at: () => request.images![0]!.data });
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
