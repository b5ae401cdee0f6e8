/**
 * Videos with their sound by LTX-2 and LTX-2.3: from text, from images for any of its frames, or from the end of a video.
 * Source: diffusers `LTX2Pipeline`, `LTX2ImageToVideoPipeline` and `LTX2ConditionPipeline`.
 */
import { copyTo, slice } from "../../../runtime/mod.ts";
import { AUDIO_SCALE, audioRate } from "../../autoencoders/ltx2/audio_config.ts";
import { upsamplerScale } from "../../autoencoders/ltx2/latent_upsampler.ts";
import { ltx2Scale } from "../../autoencoders/ltx2/video_config.ts";
import { ResultDecoder } from "../../pipeline/decoding.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { ltx2Frames } from "../../pipeline/ltx2_coders.ts";
import { traceLtx2Hearing, traceLtx2Sound } from "../../pipeline/ltx2_sound.ts";
import { rearrange } from "../../rearrange.ts";
import { isFirst } from "../../sharing/ranks.ts";
import { samplingOf } from "../../schedulers/mod.ts";
import { TorchGenerator } from "../../schedulers/noise.ts";
import { checkLtx2Control } from "./control.ts";
import { madeVideo, traceLtx2Loop } from "./denoising.ts";
import { traceLtx2Given } from "./encode_given.ts";
import { checkLtx2Images, givenOf, loopTokens } from "./given.ts";
import { checkLtx2Guidance, isPromptGuided, ltx2Passes, stgBlocks } from "./guidance.ts";
import { LTX2_FILES } from "./layouts.ts";
import { MODALITIES } from "./modulation.ts";
import { ORIGINAL_LTX2 } from "./names.ts";
import { Ltx2Noise } from "./noise.ts";
import { isDistilled, LTX2_PARTS, ltx2Info } from "./parts.ts";
import { ltx2Schedule, SECOND_SIGMAS, soundLatents } from "./schedule.ts";
import { smallerGrid } from "./positions.ts";
import { checkTwoStages, traceSecondStage } from "./second_stage.ts";
import { traceLtx2Prompts } from "./text.ts";
import { SettingError } from "../../setting_error.ts";

export const LTX2 = defineFamily({
  classNames: [
    ...["LTX2Pipeline", "LTX2ImageToVideoPipeline", "LTX2ConditionPipeline"],
    "LTX2InContextPipeline",
  ],
  files: LTX2_FILES,
  parts: LTX2_PARTS,
  lora: { transformer: { family: "LTX-2", layouts: [ORIGINAL_LTX2] }, textEncoder: "Gemma 3" },

  info: ltx2Info,

  check(request, { transformer, connectors: { config }, latentUpsampler }) {
    checkLtx2Guidance(request, transformer.config);
    if (request.twoStages) {
      const { spatial } = upsamplerScale(latentUpsampler!.config);
      checkTwoStages(request, transformer.config, spatial);
    }
    const [temporal, down, right] = transformer.config.vae_scale_factors;
    checkLtx2Images(request, temporal);
    const { width, height, twoStages } = request;
    const scale = twoStages ? upsamplerScale(latentUpsampler!.config).spatial : 1;
    checkLtx2Control(request, { rows: height / down / scale, columns: width / right / scale });
    const { maxSequenceLength: tokens } = request;
    const registers = MODALITIES.map((modality) =>
      config[`${modality}_connector_num_learnable_registers`]
    );
    const uneven = registers.find((count) => tokens !== undefined && tokens % count !== 0);
    if (uneven === undefined) return;
    throw new SettingError(
      "maxSequenceLength",
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
      seconds: numFrames / fps,
      hasSound: request.enableAudio !== false,
      given,
      /** Of a first frame alone the noise is that of latents, as without one. */
      drawsTokens: given.control !== undefined || request.task === "F2V" ||
        given.keys.length > 0 || given.firstStrength < 1 ||
        (request.twoStages === true && given.first > 0),
      steps: request.numInferenceSteps,
      /** How many times smaller the video is made before, if it is. */
      before: request.twoStages ? upsamplerScale(parts.latentUpsampler!.config).spatial : 0,
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
    const { grid, sound, tileSide, steps } = shape;
    const { in_channels: channels, vae_scale_factors: [temporal] } = transformer.config;
    const { latent_channels, mel_bins } = parts.audioVae.config;
    const before = shape.before > 0
      ? { ...shape, grid: smallerGrid(grid, shape.before) }
      : undefined;
    const beginning = before ?? shape;

    // 1. Encode: what is given beside the prompts; the prompts.
    const encoded = traceLtx2Given(session, parts, beginning, temporal, before?.before);
    const hearing = shape.given.hasSound
      ? traceLtx2Hearing(session, parts, { latents: sound, seconds: shape.seconds })
      : undefined;
    const second = before ? parts.transformer2 : undefined;
    const text = traceLtx2Prompts(session, parts, shape, second);
    const { context } = text;

    // 2. Noise of both, as tokens one after the other. 3. Denoise.
    const noiseOf = (own: typeof shape, drawsTokens: boolean) => {
      const { video, more } = loopTokens(own);
      return drawsTokens
        ? new Ltx2Noise([1, video + more, channels], [1, sound, channels])
        : new Ltx2Noise(
          [1, channels, own.grid.frames, own.grid.rows, own.grid.columns],
          [1, latent_channels, sound, mel_bins / AUDIO_SCALE],
        );
    };
    const { video, more } = loopTokens(beginning);
    const loop = traceLtx2Loop(session, parts, beginning, {
      schedule: ltx2Schedule(scheduler, video + more, steps, shape),
      noise: noiseOf(beginning, shape.drawsTokens),
      encoded,
      heard: hearing?.latents,
      context,
      ...(before && {
        enlarged: shape.before,
        others: { before: 0, after: SECOND_SIGMAS.length },
      }),
    });
    const refined = before && traceSecondStage(session, parts, {
      shape,
      before,
      loop,
      noise: noiseOf(shape, true),
      context: second ? context.slice(-1) : context,
      heard: hearing?.latents,
      temporal,
    });
    const { sample, first, soundStart } = refined?.loop ?? loop;

    // 4. Decode: the sound, then frame by frame.
    const heard = shape.hasSound && !hearing && isFirst(session.ranks)
      ? traceLtx2Sound(session, parts, sound)
      : undefined;
    const soundTokens = heard?.stage.program("sound tokens", { sample }, ({ sample }) => {
      copyTo(slice(sample, 1, soundStart).reshape(sound, channels), heard.input);
    });
    const size = { frames: grid.frames, height: grid.rows, width: grid.columns, tileSide };
    const { decoder, scaled } = ltx2Frames(vae, size);
    const result = new ResultDecoder(session, { sample, first }, decoder, (last) => {
      const made = madeVideo(last, shape)
        .reshape(grid.frames, grid.rows, grid.columns, channels);
      return { decoded: scaled(made), latents: rearrange(made, "f y x c -> 1 c f y x") };
    });

    return async (work) => {
      const generator = new TorchGenerator(work.request.seed);
      await encoded.run(work);
      await hearing?.run(work);
      await text.run(work);
      await loop.run(work, generator);
      await refined?.run(work, generator);
      if (!work.control.isLatent) await heard?.run(work, [soundTokens!.call({})]);
      await result.run(work);
    };
  },
});
