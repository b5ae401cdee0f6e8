/**
 * Videos of a character who moves as another does: Wan-Animate-2. Each clip begins with the last frame of the one before.
 * Source: diffusers `WanAnimate2Blocks`.
 */
import { copyTo, f32, slice, type Tensor, u32 } from "../../../../runtime/mod.ts";
import { wanFrames } from "../../../pipeline/wan_coders.ts";
import { latentFrameCount } from "../../../autoencoders/wan/config.ts";
import { ResultDecoder } from "../../../pipeline/decoding.ts";
import { defineFamily } from "../../../pipeline/family.ts";
import { classifierFree, guidedPrompts } from "../../../pipeline/guidance.ts";
import { ofPrompt, PromptEncoder } from "../../../pipeline/prompts.ts";
import { noiseOf } from "../../../pipeline/latents.ts";
import { rearrange } from "../../../rearrange.ts";
import { samplingOf } from "../../../schedulers/mod.ts";
import { umt5TextEncoder } from "../../../text_encoders/umt5.ts";
import { contextPadding, contextRows, wanImageStates, wanTextStates } from "../context.ts";
import { ANIMATE_FILES, ANIMATE_WAN, ORIGINAL_WAN } from "../layouts.ts";
import { patchFeatures, patchify, tokenCount, tokenGrid, unpatchify } from "../patches.ts";
import {
  ANIMATE_PARTS,
  animateInfo,
  checkAnimate,
  CLIP_LENGTH,
  clipsOf,
  DRIVING_PROMPT,
} from "./config.ts";
import { traceDenoising } from "./denoising.ts";
import { traceGiven } from "./given.ts";

export const WAN_ANIMATE = defineFamily({
  classNames: ["WanAnimate2Pipeline"],
  files: ANIMATE_FILES,
  parts: ANIMATE_PARTS,
  lora: {
    transformer: { family: "Wan", layouts: [ORIGINAL_WAN, ANIMATE_WAN] },
    textEncoder: "UMT5",
  },

  info: animateInfo,
  check: checkAnimate,

  // As they are: the reference does not clean them.
  prompts: (request) => [...guidedPrompts(request), request.promptRef ?? DRIVING_PROMPT],

  shapeOf(request, { vae, transformer: { config } }, { lengths }) {
    const { width, height, numInferenceSteps: steps, clipLen: clipLength = CLIP_LENGTH } = request;
    const { scale_factor_spatial: spatial, scale_factor_temporal: temporal } = vae.config;
    const shape = {
      height: height / spatial,
      width: width / spatial,
      steps,
      clipLength,
      frames: latentFrameCount(clipLength, temporal),
      clips: clipsOf(request),
      prompts: lengths.length,
      rows: contextRows(Math.max(...lengths), config.text_len),
      ...samplingOf(request),
    };
    return {
      shape,
      latents: [shape],
      // Of 256 pixels, as in the reference.
      smallestTile: 256 / spatial,
      passes: ["sequential", "streamed", "recomputed"],
    };
  },

  trace(session, parts, shape) {
    const { transformer, textEncoder, vae, scheduler } = parts;
    const { frames, height, width, prompts, clips } = shape;
    const { config, weights: { root: weights } } = transformer;
    const schedule = scheduler.setTimesteps(shape.steps, shape);
    const latents = [1, vae.config.z_dim, 1 + frames, height, width];
    const grid = tokenGrid(config, latents);

    // 1. Encode: the image and the videos; the prompts, the last of which is the driving video's.
    const given = traceGiven(session, parts, shape);
    const text = new PromptEncoder(session, umt5TextEncoder(textEncoder), shape, {
      inputs: { lengths: u32(prompts), padLogits: f32(prompts) },
      values: ({ tokens }) => contextPadding(tokens, config.text_len),
      trace: ({ states, lengths, padLogits }) => {
        const blocks = wanTextStates(config, weights, states);
        return Array.from({ length: prompts }, (_, prompt) => {
          const own = (x: Tensor) => ofPrompt(x, prompt);
          return {
            blocks: blocks.map(({ key, value }) => ({ key: own(key), value: own(value) })),
            lengths: own(lengths),
            padLogit: own(padLogits),
          };
        });
      },
    });
    const images = session.stage("denoise", { name: "images" }).program(
      "images",
      { seen: given.seen },
      ({ seen }) =>
        [0, 1].map((image) => wanImageStates(config, weights, slice(seen, 0, image, image + 1))),
    );
    const [character, driver] = images.outputs;

    // 2. Denoise, from noise as patches.
    const sample = session.tensor("sample", [
      1,
      tokenCount(grid),
      patchFeatures(config, vae.config.z_dim),
    ]);
    const told = text.context.at(-1)!;
    const driving = {
      drivingTokens: given.driving,
      drivingImages: driver!,
      drivingBlocks: told.blocks,
      drivingLengths: told.lengths,
      drivingPadLogit: told.padLogit,
    };
    const denoising = traceDenoising(session, parts, shape, {
      schedule,
      sample,
      grid,
      latents,
      driving,
      channels: given.channels,
      images: character!,
      contexts: text.context.slice(0, -1),
    });
    const begin = denoising.stage.program(
      "begin",
      { noise: f32(...latents) },
      ({ noise }) => copyTo(patchify(config, noise), sample),
    );

    // 3. Decode, frame by frame, without the character's image.
    const { decoder, scaled } = wanFrames(parts, shape, shape.isTinyDecoded);
    const result = new ResultDecoder(session, { sample }, decoder, ({ sample }) => {
      const video = slice(unpatchify(config, sample, grid), 1, 1, grid.frames);
      return {
        decoded: scaled(video),
        latents: rearrange(video, "1 f y x c -> 1 c f y x"),
      };
    });

    return async (work) => {
      const { guidanceScale, numFrames } = work.request;
      const draw = noiseOf(work.request, latents);
      const guidance = classifierFree(guidanceScale, prompts - 1);
      await given.run(work);
      await text.run(work);
      await work.run([images.call({})]);
      let last: Float32Array | undefined;
      for (let clip = 0; clip < clips; clip++) {
        work.clip = { index: clip, count: clips };
        // What an attempt before this one has left is of one clip only.
        delete work.attempt.denoised;
        await given.runClip(work, clip, last);
        await work.run([begin.call({ noise: draw() })]);
        await denoising.run(work, guidance, draw);
        await result.run(work, given.cutter(clip, numFrames, (frame) => last = frame));
        await work.finish();
      }
    };
  },
});
