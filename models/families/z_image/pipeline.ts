/**
 * Images with Z-Image: from text, and from an input image by strength.
 *
 * Source: diffusers `ZImagePipeline` and `ZImageImg2ImgPipeline`.
 */
import {
  copyTo,
  elementCount,
  elementwise,
  f32,
  gather,
  permute,
  slice,
  type Tensor,
  writing,
} from "../../../runtime/mod.ts";
import { encodeImage, klImageDecoder, klImageEncoder } from "../../autoencoders/kl/coders.ts";
import { posteriorSample, scaleLatents, unscaleLatents } from "../../autoencoders/kl/posterior.ts";
import { timestepEmbedding } from "../../embeddings.ts";
import { TorchGenerator } from "../../noise.ts";
import { decodeResult } from "../../pipeline/decoding.ts";
import { Denoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import type { Guidance } from "../../pipeline/guidance.ts";
import { PromptEncoder } from "../../pipeline/prompts.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import { type Schedule, strengthStart } from "../../schedulers/mod.ts";
import { qwen3TextEncoder } from "../../text_encoders/qwen3.ts";
import { qwen3ChatPrompt } from "../../tokenizers/mod.ts";
import { PATCH_SIDE, Z_IMAGE_PARTS, zImageInfo } from "./config.ts";
import { ORIGINAL_Z_IMAGE, Z_IMAGE_FILES } from "./layouts.ts";
import { modulationTable, TIMESTEP_FREQUENCIES } from "./modulation.ts";
import { patchify, unpatchify, unpatchifyLast } from "./patches.ts";
import { tokenCount, type TokenGrid } from "../../pipeline/token_grid.ts";
import { paddedCount } from "./positions.ts";
import { elapsedTime, zImageSchedule } from "./schedule.ts";
import { zImageContext, zImageTransformer } from "./transformer.ts";

/** Modules of the transformer that prompts pass through before the first step. */
const CONTEXT_MODULES = /^(cap_embedder|context_refiner)\./;

/** See the file comment. */
export const Z_IMAGE = defineFamily({
  classNames: ["ZImagePipeline", "ZImageImg2ImgPipeline"],
  files: Z_IMAGE_FILES,
  parts: Z_IMAGE_PARTS,
  lora: {
    transformer: { family: "Z-Image", layouts: [ORIGINAL_Z_IMAGE] },
    textEncoder: "Qwen3",
  },

  info: zImageInfo,

  check({ width, height, guidanceLimit = 1, guidanceEnd = 1 }, { transformer }, { sizeMultiple }) {
    if (!(guidanceLimit > 0 && guidanceLimit < Infinity)) {
      throw new RangeError(
        `Cannot guide with a guidanceLimit of ${guidanceLimit}: it must be above 0; leave it out for no limit`,
      );
    }
    if (!(guidanceEnd >= 0)) {
      throw new RangeError(
        `Cannot guide with a guidanceEnd of ${guidanceEnd}: it must be a share of the way, from 0 to 1`,
      );
    }
    const [, rows, columns] = transformer.config.axes_lens.map((length) => length * sizeMultiple);
    if (height <= rows! && width <= columns!) return;
    throw new RangeError(
      `Cannot make ${width}x${height}: the model has positions for ${columns}x${rows}; ask for a smaller size`,
    );
  },

  prompts: ({ prompt, negativePrompt, guidanceScale }) =>
    (guidanceScale > 0 ? [prompt, negativePrompt] : [prompt])
      .map((text) => qwen3ChatPrompt(text, { hasThinkBlock: false })),

  shapeOf(request, _, { lengths }, { sizeMultiple }) {
    const { width, height, task, strength = 1, numInferenceSteps: steps } = request;
    const grid: TokenGrid = { rows: height / sizeMultiple, columns: width / sizeMultiple };
    const startsFromImage = task === "TI2I";
    const shape = {
      grid,
      /** Of every prompt; each has a pass of its own. */
      textTokens: lengths.map(paddedCount),
      startsFromImage,
      isLimited: lengths.length > 1 && request.guidanceLimit !== undefined,
      steps,
      start: startsFromImage ? strengthStart(steps, strength, "start") : 0,
      shift: request.flowShift,
    };
    const latents = [grid.rows * PATCH_SIDE, grid.columns * PATCH_SIDE] as const;
    return { shape, latents, passes: [lengths.length > 1 ? "sequential" : "single"] };
  },

  trace(session, parts, shape) {
    const { grid, textTokens, startsFromImage, isLimited, operands, tileSide } = shape;
    const { vae, scheduler, textEncoder, tokenizer } = parts;
    const { config, weights: { root: weights } } = parts.transformer;
    const schedule = zImageSchedule(scheduler, tokenCount(grid), shape.steps, shape);
    const [height, width] = [grid.rows * PATCH_SIDE, grid.columns * PATCH_SIDE];
    const size = { height, width, tileSide };
    const latentShape = [1, config.in_channels, height, width];

    // 1. Encode: the input image; the prompts, by the text encoder and the context refiner.
    const encoder = startsFromImage
      ? klImageEncoder(session.stage("encode"), vae, size)
      : undefined;
    const layer = textEncoder.config.num_hidden_layers - 1;
    const text = new PromptEncoder(
      session,
      qwen3TextEncoder(textEncoder, tokenizer.padId, [layer]),
      textTokens.length,
      Math.max(...textTokens),
    );
    const [prompts, rows] = text.states.shape as [number, number];
    const context = session.stage("context", { phase: "denoise" }).program(
      "context",
      { states: text.states, masks: f32(prompts, rows, 1) },
      ({ states, masks }, graph) =>
        textTokens.map((tokens, i) => {
          const own = (x: Tensor) => slice(slice(x, 0, i, i + 1), 1, 0, tokens);
          return graph.scope(
            `prompt ${i}`,
            () => zImageContext(graph, config, weights, own(states), own(masks)),
          );
        }),
    );

    // 2. Noise, added to the input image's latents, as patches; modulation of all timesteps.
    const begin = session.stage("begin", { phase: "denoise" }).program(
      "begin",
      {
        noise: f32(...latentShape),
        timesteps: f32(schedule.timesteps.length, TIMESTEP_FREQUENCIES),
        moments: startsFromImage ? f32(1, height, width, 2 * config.in_channels) : undefined,
        momentNoise: startsFromImage ? f32(...latentShape) : undefined,
        sigma: startsFromImage ? f32(1) : undefined,
      },
      ({ noise, timesteps, moments, momentNoise, sigma }) => {
        let latents = noise;
        if (moments && momentNoise && sigma) {
          const drawn = posteriorSample(moments, permute(momentNoise, [0, 2, 3, 1]));
          const x = permute(scaleLatents(vae.config, drawn), [0, 3, 1, 2]);
          latents = elementwise("(1.0 - sigma) * x + sigma * noise", { x, noise, sigma });
        }
        return {
          sample: patchify(latents),
          modulation: modulationTable(config, weights, timesteps),
        };
      },
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, modulation } = begin.outputs;
    const loop = session.stage("denoise", { repeats: schedule.timesteps.length });
    const step = session.tensor("step", [1], "u32");
    const passes = context.outputs.map((context, i) =>
      loop.program(
        `pass ${i}`,
        { context, sample, modulation, step },
        ({ context, sample, modulation, step }, graph) =>
          zImageTransformer(graph, config, weights, {
            ...{ context, sample, grid },
            modulation: gather(modulation, step),
          }),
        { operands },
      )
    );
    const decoded = (patches: Tensor) => unscaleLatents(vae.config, unpatchifyLast(patches, grid));
    const preview = shape.hasPreviews
      ? { decoder: klImageDecoder(loop, vae, size, "preview"), decoded }
      : undefined;
    const denoiser = new Denoiser(loop, { schedule, sample, passes, operands, isLimited, preview });

    // 4. Decode.
    const last = session.stage("decode");
    const decoder = klImageDecoder(last, vae, size);
    const finish = last.program("finish", { sample }, ({ sample }) => {
      copyTo(decoded(sample), decoder.input);
      return unpatchify(sample, grid);
    });
    last.willRead(finish.outputs, decoder.results[0]!);

    return async (work) => {
      const { request, tokens } = work;
      const generator = new TorchGenerator(request.seed);
      const draw = () => generator.randn(elementCount(latentShape));
      // The noise of an input image's latents comes first.
      const momentNoise = encoder && draw();
      const noise = draw();
      work.beginEncoding(encoder?.count ?? 0);
      const moments = encoder && await encodeImage(work, encoder, request.images![0]!);
      const masks = tokens.flatMap(({ length }) =>
        Array.from({ length: rows }, (_, i) => Number(i < length))
      );
      await text.run(work, { calls: () => [context.call({ masks })], modules: CONTEXT_MODULES });
      const times = Array.from(
        schedule.timesteps,
        (timestep) => Math.fround(elapsedTime(timestep) * config.t_scale),
      );
      const timesteps = timestepEmbedding(times, TIMESTEP_FREQUENCIES);
      const sigma = encoder && [schedule.sigmas[0]!];
      await work.run([begin.call({ noise, timesteps, moments, momentNoise, sigma })]);
      const guidance = guidanceOf(request, schedule, prompts);
      await denoiser.run(work, { guidance, inputs: (i) => writing(step, [i]) });
      await decodeResult(work, decoder, finish.call({}), finish.outputs);
    };
  },
});

/**
 * Guidance p + scale · (p − n) of outputs that are velocities with the other sign.
 *
 * Source: diffusers `ZImagePipeline`, with `cfg_truncation` as the time after which nothing is guided.
 */
function guidanceOf(
  { guidanceScale: scale, guidanceEnd = 1, guidanceLimit }: PipelineRequest,
  { timesteps }: Schedule,
  prompts: number,
): Guidance {
  if (prompts === 1) return { weights: () => [-1] };
  const isGuided = (i: number) => elapsedTime(timesteps[i]!) <= guidanceEnd;
  return {
    isGuided,
    weights: (i) => (isGuided(i) ? [-1 - scale, scale] : [-1, 0]),
    ...(guidanceLimit !== undefined && { limit: { sign: -1, scale, ratio: guidanceLimit } }),
  };
}
