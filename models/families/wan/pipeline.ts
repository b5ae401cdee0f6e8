/**
 * Videos and images with Wan: from text, from a first frame, after an input video, and images edited as a text says.
 *
 * Source: diffusers `WanPipeline`, `WanImageToVideoPipeline` (with `expand_timesteps`) and `WanVideoToVideoPipeline`.
 * An edit is a short video that goes on from the image, of which the last frame is kept, as ChronoEdit does it.
 */
import { elementCount, f32, slice, type Tensor, u32 } from "../../../runtime/mod.ts";
import { unscaleLatents, wanVideoDecoder, WanVideoEncoder } from "../../autoencoders/wan/coders.ts";
import { latentFrameCount } from "../../autoencoders/wan/latents.ts";
import { timestepConstant } from "../../embeddings.ts";
import { TorchGenerator } from "../../noise.ts";
import { INPUTS } from "../../pipeline/check_request.ts";
import { ResultDecoder } from "../../pipeline/decoding.ts";
import { Denoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { classifierFree, guidedPrompts } from "../../pipeline/guidance.ts";
import { noisyLatents } from "../../pipeline/latents.ts";
import { PromptEncoder } from "../../pipeline/prompts.ts";
import { reusingSteps } from "../../pipeline/step_cache.ts";
import { cleanPrompt } from "../../prompt_cleaning.ts";
import { rearrange } from "../../rearrange.ts";
import { strengthStart } from "../../schedulers/mod.ts";
import { umt5TextEncoder } from "../../text_encoders/umt5.ts";
import { hiddenSize, WAN_PARTS, wanInfo } from "./config.ts";
import { contextPadding, contextRows } from "./context.ts";
import { ORIGINAL_WAN, WAN_FILES } from "./layouts.ts";
import { modulationIndices, tableRows, timestepRows, tokenTimesteps } from "./modulation.ts";
import { patchify, tokenCount, tokenGrid, unpatchify, withFirstFrame } from "./patches.ts";
import { wanContextStates, wanTransformer } from "./transformer.ts";

/** See the file comment. */
export const WAN = defineFamily({
  classNames: ["WanPipeline", "WanImageToVideoPipeline"],
  files: WAN_FILES,
  parts: WAN_PARTS,
  lora: { transformer: { family: "Wan", layouts: [ORIGINAL_WAN] }, textEncoder: "UMT5" },

  info: wanInfo,

  prompts: (request) => guidedPrompts(request).map(cleanPrompt),

  shapeOf(request, { vae }, { lengths, maxLength }) {
    const { task, width, height, numInferenceSteps: steps, strength } = request;
    const { scale_factor_spatial: spatial, scale_factor_temporal: temporal } = vae.config;
    // An edit takes the shortest video that has two latent frames.
    const frames = { T2I: 1, TI2I: 1 + temporal }[task as string] ?? request.numFrames;
    const shape = {
      frames: latentFrameCount(frames, temporal),
      height: height / spatial,
      width: width / spatial,
      prompts: lengths.length,
      rows: contextRows(Math.max(...lengths), maxLength),
      source: INPUTS[task],
      steps,
      start: strength === undefined ? 0 : strengthStart(steps, strength, "steps"),
      shift: request.flowShift,
    };
    const { guidancePasses = "batched" } = request;
    return {
      shape,
      latents: [shape.height, shape.width],
      // Of 256 pixels, as in the reference.
      smallestTile: 256 / spatial,
      passes: guidancePasses === "batched" ? ["batched", "sequential"] : [guidancePasses],
    };
  },

  trace(session, { transformer, textEncoder, vae, scheduler }, shape) {
    const { frames, height, width, tileSide, prompts, source } = shape;
    const { config, weights: { root: weights } } = transformer;
    const schedule = scheduler.setTimesteps(shape.steps, shape);
    const steps = schedule.timesteps.length;
    const size = { frames, height, width, tileSide };
    const latents = [1, vae.config.z_dim, frames, height, width];
    const grid = tokenGrid(config, latents);
    const frameGrid = { ...grid, frames: 1 };
    const patches = (x: Tensor) => patchify(config, rearrange(x, "f y x c -> 1 c f y x"));

    // 1. Encode: the first frame, which stays clean, or a video; the prompts, as keys and values.
    const isImage = source === "image";
    const input = source === "text"
      ? undefined
      : new WanVideoEncoder(session, vae, isImage ? { ...size, frames: 1 } : size);
    const perPass = shape.passes === "batched" ? [prompts] : new Array<number>(prompts).fill(1);
    const text = new PromptEncoder(session, umt5TextEncoder(textEncoder), shape, {
      inputs: { lengths: u32(prompts), padLogits: f32(prompts) },
      values: ({ tokens, maxLength }) => contextPadding(tokens, maxLength),
      trace: ({ states, lengths, padLogits }, graph) => {
        const blocks = wanContextStates(graph, config, weights, states);
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

    // 2. Noise, added to an input video's latents, as patches; all timesteps. A given first frame is at timestep 0.
    const times = isImage ? [...schedule.timesteps, 0] : [...schedule.timesteps];
    const loop = session.stage("denoise", { repeats: steps });
    const begin = loop.program(
      "begin",
      { noise: f32(...latents), given: input?.latents },
      ({ noise, given }, graph) => {
        const x = patchify(config, noise);
        const embedded = timestepConstant(graph, times, config.freq_dim);
        return {
          sample: given && !isImage ? noisyLatents(patches(given), x, schedule.sigmas[0]!) : x,
          firstFrame: given && isImage ? patches(given) : undefined,
          timesteps: timestepRows(weights, embedded, hiddenSize(config)),
        };
      },
    );

    // 3. Denoise: the transformer for both prompts at once or one after the other, guidance, the solver.
    const { sample, firstFrame, timesteps } = begin.outputs;
    const decoded = (tokens: Tensor, shown = frameGrid) =>
      unscaleLatents(vae, unpatchify(config, tokens, shown));
    const denoiser = new Denoiser(loop, shape, {
      ...{ schedule, sample },
      passes: text.context.map((context) => ({ ...context, timesteps, firstFrame })),
      step: {
        shape: [tableRows(config.num_layers), isImage ? 2 : 1],
        values: (i) => modulationIndices(config, isImage ? [steps, i] : [i]),
      },
      predict: ({ sample, firstFrame, timesteps, step, ...context }, graph) =>
        wanTransformer(graph, config, weights, {
          ...{ grid, timesteps, context, modulationIndices: step },
          tokens: withFirstFrame(sample, firstFrame),
          ...(firstFrame && { tokenTimesteps: tokenTimesteps(graph, grid) }),
        }),
      preview: {
        decoder: wanVideoDecoder(vae, { ...size, frames: 1 }),
        // The first latent frame, or the one after a given first frame.
        part: (x) => {
          const [frame, count] = [isImage && frames > 1 ? 1 : 0, tokenCount(frameGrid)];
          return slice(x, 1, frame * count, (frame + 1) * count);
        },
        decoded,
      },
    });

    // 4. Decode, frame by frame.
    const decoder = wanVideoDecoder(vae, size);
    const result = new ResultDecoder(session, { sample, firstFrame }, decoder, (last) => {
      const tokens = withFirstFrame(last.sample, last.firstFrame);
      return {
        decoded: decoded(tokens, grid),
        latents: rearrange(unpatchify(config, tokens, grid), "1 f y x c -> 1 c f y x"),
      };
    });

    return async (work) => {
      const { seed, task, quality, guidanceScale, video, images } = work.request;
      const noise = new TorchGenerator(seed).randn(elementCount(latents));
      await input?.run(work, video ?? images!.map(({ data }) => data));
      await text.run(work);
      await work.run([begin.call({ noise })]);
      const reused = quality === "high"
        ? reusingSteps([...schedule.timesteps], config.freq_dim)
        : [];
      await denoiser.run(work, classifierFree(guidanceScale, prompts), reused);
      await result.run(work, task === "TI2I" ? "last" : "all");
    };
  },
});
