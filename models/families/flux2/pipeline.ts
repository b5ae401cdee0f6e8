/**
 * Images with FLUX.2 klein: from text, and from input images as a text says.
 *
 * Source: diffusers `Flux2KleinPipeline`.
 */
import {
  concat,
  copyTo,
  elementCount,
  f32,
  gather,
  permute,
  slice,
  type Tensor,
  writing,
} from "../../../runtime/mod.ts";
import { encodeImage, klImageDecoder, klImageEncoder } from "../../autoencoders/kl/coders.ts";
import {
  denormaliseTokens,
  normaliseTokens,
  PACKED_SIDE,
  packLatents,
  unpackLatents,
} from "../../autoencoders/kl/packing.ts";
import { posteriorMode } from "../../autoencoders/kl/posterior.ts";
import { timestepEmbedding } from "../../embeddings.ts";
import { TorchGenerator } from "../../noise.ts";
import { decodeResult } from "../../pipeline/decoding.ts";
import { Denoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { classifierFree, UNGUIDED } from "../../pipeline/guidance.ts";
import { PromptEncoder } from "../../pipeline/prompts.ts";
import { tokenCount, type TokenGrid } from "../../pipeline/token_grid.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import { qwen3TextEncoder } from "../../text_encoders/qwen3.ts";
import { qwen3ChatPrompt } from "../../tokenizers/mod.ts";
import {
  FLUX2_PARTS,
  flux2Info,
  type Flux2PipelineConfig,
  hiddenSize,
  TEXT_LAYERS,
} from "./config.ts";
import { FLUX2_FILES, ORIGINAL_FLUX2 } from "./layouts.ts";
import { modulationTable } from "./modulation.ts";
import { flux2Schedule, modelTimestep } from "./schedule.ts";
import { flux2Context, flux2Transformer } from "./transformer.ts";

/** Modules of the transformer that prompts pass through before the first step. */
const CONTEXT_MODULES = /^context_embedder$/;

/** See the file comment. */
export const FLUX2 = defineFamily({
  classNames: ["Flux2KleinPipeline"],
  files: FLUX2_FILES,
  parts: FLUX2_PARTS,
  lora: { transformer: { family: "FLUX.2", layouts: [ORIGINAL_FLUX2] }, textEncoder: "Qwen3" },

  info: flux2Info,

  prompts: (request, { settings }) =>
    (isGuided(request, settings) ? [request.prompt, request.negativePrompt] : [request.prompt])
      .map((text) => qwen3ChatPrompt(text, { hasThinkBlock: true })),

  shapeOf(request, { settings }, { maxLength }, { sizeMultiple }) {
    const { images = [], numInferenceSteps: steps } = request;
    const gridOf = ({ width, height }: { readonly width: number; readonly height: number }) => ({
      rows: height / sizeMultiple,
      columns: width / sizeMultiple,
    });
    const [grid, references] = [gridOf(request), images.map(gridOf)];
    const largest = (side: keyof TokenGrid) =>
      Math.max(...[grid, ...references].map((one) => one[side])) * PACKED_SIDE;
    return {
      // Every prompt is padded to the same number of tokens, and has a pass of its own.
      shape: { grid, references, textTokens: maxLength, steps },
      latents: [largest("rows"), largest("columns")],
      passes: [isGuided(request, settings) ? "sequential" : "single"],
    };
  },

  trace(session, { transformer, textEncoder, vae, tokenizer, scheduler }, shape) {
    const { grid, references, textTokens, steps, operands, tileSide, passes } = shape;
    const { config, weights: { root: weights } } = transformer;
    const schedule = flux2Schedule(scheduler, tokenCount(grid), steps);
    const prompts = passes === "single" ? 1 : 2;
    const sizeOf = ({ rows, columns }: TokenGrid) => ({
      height: rows * PACKED_SIDE,
      width: columns * PACKED_SIDE,
      tileSide,
    });
    const latentShape = [1, config.in_channels, grid.rows, grid.columns];

    // 1. Encode: the input images, one after the other, as tokens; the prompts.
    const encode = references.length > 0 ? session.stage("encode") : undefined;
    const sizes = new Map(references.map((reference) => [keyOf(reference), sizeOf(reference)]));
    const encoders = new Map(
      [...sizes].map(([key, size]) => [key, klImageEncoder(encode!, vae, size, `encode ${key}`)]),
    );
    const encoderOf = (image: number) => encoders.get(keyOf(references[image]!))!;
    const tokens = encode?.program(
      "tokens",
      Object.fromEntries(references.map((reference, i) => {
        const { height, width } = sizeOf(reference);
        return [`moments${i}`, f32(1, height, width, 2 * vae.config.latent_channels)];
      })),
      (moments) => {
        const packed = Object.values(moments).map((own) => packLatents(posteriorMode(own)));
        return normaliseTokens(vae.config, vae.weights.root, concat(packed, 1));
      },
    );
    const qwen3 = qwen3TextEncoder(textEncoder, tokenizer.padId, TEXT_LAYERS);
    const text = new PromptEncoder(session, qwen3, prompts, textTokens);
    const context = session.stage("context", { phase: "denoise" }).program(
      "context",
      { states: text.states },
      ({ states }) => {
        const all = flux2Context(config, weights, states);
        return Array.from({ length: prompts }, (_, i) => slice(all, 0, i, i + 1));
      },
    );

    // 2. Noise, as tokens; modulation of all timesteps.
    const begin = session.stage("begin", { phase: "denoise" }).program(
      "begin",
      { noise: f32(...latentShape), timesteps: f32(steps, config.timestep_guidance_channels) },
      ({ noise, timesteps }) => ({
        sample: permute(noise, [0, 2, 3, 1]).reshape(1, tokenCount(grid), config.in_channels),
        modulation: modulationTable(weights, timesteps, hiddenSize(config)),
      }),
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, modulation } = begin.outputs;
    const loop = session.stage("denoise", { repeats: steps });
    const step = session.tensor("step", [1], "u32");
    const passPrograms = context.outputs.map((context, i) =>
      loop.program(
        `pass ${i}`,
        { context, sample, modulation, step, references: tokens?.outputs },
        ({ modulation, step, ...inputs }, graph) =>
          flux2Transformer(graph, config, weights, {
            ...inputs,
            grid,
            referenceGrids: references,
            modulation: gather(modulation, step),
          }),
        { operands },
      )
    );
    const decoded = (tokens: Tensor) => {
      const packed = denormaliseTokens(vae.config, vae.weights.root, tokens);
      return unpackLatents(packed, grid.rows);
    };
    const denoiser = new Denoiser(loop, {
      ...{ schedule, sample, passes: passPrograms, operands },
      preview: shape.hasPreviews
        ? { decoder: klImageDecoder(loop, vae, sizeOf(grid), "preview"), decoded }
        : undefined,
    });

    // 4. Decode.
    const last = session.stage("decode");
    const decoder = klImageDecoder(last, vae, sizeOf(grid));
    const finish = last.program("finish", { sample }, ({ sample }) => {
      copyTo(decoded(sample), decoder.input);
      return permute(sample.reshape(1, grid.rows, grid.columns, -1), [0, 3, 1, 2]);
    });
    last.willRead(finish.outputs, decoder.results[0]!);

    return async (work) => {
      const { request: { seed, images = [], guidanceScale } } = work;
      const noise = new TorchGenerator(seed).randn(elementCount(latentShape));
      work.beginEncoding(images.reduce((sum, _, i) => sum + encoderOf(i).count, 0));
      const moments: Record<string, Float32Array> = {};
      for (const [i, image] of images.entries()) {
        moments[`moments${i}`] = await encodeImage(work, encoderOf(i), image);
      }
      if (tokens) await work.run([tokens.call(moments)]);
      await text.run(work, { calls: () => [context.call({})], modules: CONTEXT_MODULES });
      const timesteps = timestepEmbedding(
        Array.from(schedule.timesteps, modelTimestep),
        config.timestep_guidance_channels,
      );
      await work.run([begin.call({ noise, timesteps })]);
      const guidance = prompts === 1 ? UNGUIDED : classifierFree(guidanceScale);
      await denoiser.run(work, { guidance, inputs: (i) => writing(step, [i]) });
      await decodeResult(work, decoder, finish.call({}), finish.outputs);
    };
  },
});

/** Distilled models make their images without guidance, whatever is asked for. */
function isGuided({ guidanceScale }: PipelineRequest, settings: Flux2PipelineConfig): boolean {
  return guidanceScale > 1 && !settings.is_distilled;
}

function keyOf({ rows, columns }: TokenGrid): string {
  return `${columns}x${rows}`;
}
