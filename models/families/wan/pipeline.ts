/**
 * Videos and images with Wan. An edit is a short video whose last frame is kept, as ChronoEdit does it.
 * Source: diffusers `WanPipeline`, `WanImageToVideoPipeline`, `WanVideoToVideoPipeline` and `WanVACEPipeline`;
 * `relatives.ts` names those of other teams.
 */
import { copyTo, f32, slice, type Tensor, u32 } from "../../../runtime/mod.ts";
import { wanFrames } from "../../pipeline/wan_coders.ts";
import { latentFrameCount } from "../../autoencoders/wan/config.ts";
import { ResultDecoder } from "../../pipeline/decoding.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { guidedPrompts, skipLayersOf } from "../../pipeline/guidance.ts";
import { noiseOf, noisyLatents } from "../../pipeline/latents.ts";
import { PromptEncoder } from "../../pipeline/prompts.ts";
import { cleanPrompt } from "../../ftfy/mod.ts";
import { rearrange } from "../../rearrange.ts";
import { samplingOf, strengthStart } from "../../schedulers/mod.ts";
import { solverHistory } from "../../schedulers/solver.ts";
import { umt5TextEncoder } from "../../text_encoders/umt5.ts";
import { checkWan, DMD_PIPELINE, expertRanges, WAN_PARTS, wanInfo } from "./config.ts";
import { contextPadding, contextRows, wanTextStates } from "./context.ts";
import { traceGiven } from "./encode_given.ts";
import { traceExpert } from "./expert.ts";
import { framesBefore, givenKind } from "./given.ts";
import { ORIGINAL_WAN, WAN_FILES } from "./layouts.ts";
import { rateOf, RELATIVES } from "./relatives.ts";
import {
  patchFeatures,
  patchify,
  patchifyClip,
  tokenCount,
  tokenGrid,
  unpatchify,
  withFirstFrames,
} from "./patches.ts";

export const WAN = defineFamily({
  classNames: [
    ...["WanPipeline", "WanImageToVideoPipeline", "WanVideoToVideoPipeline", "WanVACEPipeline"],
    DMD_PIPELINE,
    ...Object.keys(RELATIVES),
  ],
  files: WAN_FILES,
  parts: WAN_PARTS,
  lora: { transformer: { family: "Wan", layouts: [ORIGINAL_WAN] }, textEncoder: "UMT5" },

  info: wanInfo,
  check: checkWan,

  prompts: (request) => guidedPrompts(request).map(cleanPrompt),

  shapeOf(request, parts, { lengths, maxLength }) {
    const { task, width, height, numInferenceSteps: steps, strength } = request;
    const { scale_factor_spatial: spatial, scale_factor_temporal: temporal } = parts.vae.config;
    // An edit takes the shortest video that has two latent frames.
    const numFrames = { T2I: 1, TI2I: 1 + temporal }[task as string] ?? request.numFrames;
    const frames = latentFrameCount(numFrames, temporal);
    const shape = {
      frames,
      height: height / spatial,
      width: width / spatial,
      steps,
      prompts: lengths.length,
      rows: contextRows(Math.max(...lengths), maxLength),
      given: givenKind(request, parts, frames),
      start: strength === undefined ? 0 : strengthStart(steps, strength, "steps"),
      riflex: request.riflex === true,
      skipped: skipLayersOf(request)?.layers,
      rate: rateOf(parts.transformer.config, request.fps),
      usesZeroStar: request.cfgZeroStar === true && lengths.length > 1,
      ...samplingOf(request),
    };
    // A pass without some layers is one more of the prompt's own.
    const { guidancePasses = shape.skipped ? "sequential" : "batched" } = request;
    return {
      shape,
      latents: [shape],
      // Of 256 pixels, as in the reference.
      smallestTile: 256 / spatial,
      passes: guidancePasses === "batched" ? ["batched", "sequential"] : [guidancePasses],
    };
  },

  trace(session, parts, shape) {
    const { transformer, transformer2, textEncoder, vae, tinyDecoder, scheduler } = parts;
    const { frames, height, width, prompts } = shape;
    const { config, weights: { root: weights } } = transformer;
    const schedule = scheduler.setTimesteps(shape.steps, shape);
    const ranges = expertRanges(parts, schedule.timesteps);
    const before = framesBefore(shape.given);
    const latents = [1, vae.config.z_dim, before + frames, height, width];
    const grid = tokenGrid(config, latents);

    // 1. Encode: what is given beside the prompts; the prompts, as keys and values.
    const given = traceGiven(session, parts, shape);
    const perPass = shape.passes === "batched" ? [prompts] : new Array<number>(prompts).fill(1);
    const text = new PromptEncoder(session, umt5TextEncoder(textEncoder), shape, {
      inputs: { lengths: u32(prompts), padLogits: f32(prompts) },
      values: ({ tokens, maxLength }) => contextPadding(tokens, maxLength),
      isKept: ranges.length === 1,
      trace: ({ states, lengths, padLogits }) => {
        const blocks = wanTextStates(config, weights, states);
        return perPass.map((count, pass) => {
          const own = (x: Tensor) => (x.dim(0) === count ? x : slice(x, 0, pass, pass + 1));
          return {
            blocks: blocks.map(({ key, value }) => ({ key: own(key), value: own(value) })),
            lengths: own(lengths),
            padLogit: own(padLogits),
          };
        });
      },
    });

    // 2. Denoise: one transformer, or the one for high noise and then the one for low noise.
    const features = patchFeatures(config, vae.config.z_dim);
    const sample = session.tensor("sample", [1, tokenCount(grid), features]);
    const history = solverHistory(session, schedule, sample);
    const experts = ranges.map((range, i) =>
      traceExpert(session, shape, {
        vae,
        tinyDecoder,
        schedule,
        range,
        sample,
        history,
        latents,
        grid,
        text,
        given,
        isAlone: ranges.length === 1,
        ...i === 0 ? { transformer, suffix: "" } : { transformer: transformer2!, suffix: " 2" },
      })
    );

    // 3. Begin with noise, added to an input video's latents, as patches.
    const working = ranges.findIndex(([first, end]) => end > first);
    const begin = experts[working]!.stage.program(
      "begin",
      { noise: f32(...latents), clip: given.clip },
      ({ noise, clip }) => {
        const x = patchify(config, noise);
        const seen = clip && patchifyClip(config, clip);
        copyTo(seen ? noisyLatents(seen, x, schedule) : x, sample);
      },
    );

    // 4. Decode, frame by frame, without what lies before the video.
    const { first } = given.tokens;
    const { decoder, scaled } = wanFrames(parts, shape, shape.isTinyDecoded);
    const result = new ResultDecoder(session, { sample, first }, decoder, (last) => {
      const all = unpatchify(config, withFirstFrames(last.sample, last.first), grid);
      const video = before ? slice(all, 1, before, grid.frames) : all;
      return {
        decoded: scaled(video),
        latents: rearrange(all, "1 f y x c -> 1 c f y x"),
      };
    });

    return async (work) => {
      const { task, guidanceScale, guidanceScale2 = guidanceScale } = work.request;
      const draw = noiseOf(work.request, latents);
      const noise = draw();
      await given.run(work);
      await text.run(work);
      await work.run([begin.call({ noise })]);
      for (const [i, expert] of experts.entries()) {
        await expert.run(work, i === 0 ? guidanceScale : guidanceScale2, noise, draw);
      }
      await result.run(work, task === "TI2I" ? "last" : "all");
    };
  },
});
