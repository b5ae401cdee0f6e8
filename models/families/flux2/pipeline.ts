/**
 * Images with FLUX.2, klein and dev: from text, and from input images as a text says; a mask may keep a part of the first.
 * Source: diffusers `Flux2KleinPipeline`, `Flux2KleinInpaintPipeline` and `Flux2Pipeline`.
 */
import { f32, gather, slice } from "../../../runtime/mod.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { roundedTimestep, timestepConstant, timestepEmbedding } from "../../blocks/embeddings.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { classifierFree } from "../../pipeline/guidance.ts";
import {
  beginSample,
  gridOf,
  gridTokens,
  latentSize,
  noiseOf,
  tokenCount,
  type TokenGrid,
} from "../../pipeline/latents.ts";
import { packedDecoder, packedImages, tokenResult } from "../../pipeline/packed_coders.ts";
import { ofPrompt, PromptEncoder } from "../../pipeline/prompts.ts";
import { imageSteps } from "../../schedulers/mod.ts";
import { FLUX2_PARTS, flux2Info } from "./config.ts";
import { FLUX2_FILES, ORIGINAL_FLUX2 } from "./layouts.ts";
import { modulationTable } from "./modulation.ts";
import { flux2Prompts, flux2TextEncoder } from "./prompt.ts";
import { flux2Schedule } from "./schedule.ts";
import { flux2Context, flux2Transformer } from "./transformer.ts";
import { hiddenSize } from "../../config.ts";

export const FLUX2 = defineFamily({
  classNames: ["Flux2KleinPipeline", "Flux2KleinInpaintPipeline", "Flux2Pipeline"],
  files: FLUX2_FILES,
  parts: FLUX2_PARTS,
  lora: {
    transformer: { family: "FLUX.2", layouts: [ORIGINAL_FLUX2] },
    textEncoder: "Qwen3 or Mistral Small",
  },

  info: flux2Info,

  prompts: flux2Prompts,

  shapeOf({ images = [], ...request }, _, { lengths, maxLength }, { sizeMultiple }) {
    const grid = gridOf(request, sizeMultiple);
    const references = images.map((image) => gridOf(image, sizeMultiple));
    return {
      // Every prompt is padded to the same number of tokens, and has a pass of its own.
      shape: {
        grid,
        references,
        prompts: lengths.length,
        rows: maxLength,
        ...imageSteps(request, true),
      },
      latents: [grid, ...references].map((each) => latentSize(each, PACKED_SIDE)),
    };
  },

  trace(session, parts, shape) {
    const { transformer, vae, scheduler } = parts;
    const { grid, references, prompts, steps, tileSide } = shape;
    const { config, weights: { root: weights } } = transformer;
    const schedule = flux2Schedule(scheduler, tokenCount(grid), steps, shape);
    const sizeOf = (grid: TokenGrid) => ({ ...latentSize(grid, PACKED_SIDE), tileSide });
    const latents = [1, config.in_channels, grid.rows, grid.columns];
    const { guidance_embeds: isGuided, timestep_guidance_channels: channels } = config;

    // 1. Encode: the input images, as tokens one after the other; the prompts.
    const given = packedImages(session, vae, references.map(sizeOf));
    const text = new PromptEncoder(session, flux2TextEncoder(parts), shape, {
      trace: ({ states }) => {
        const all = flux2Context(config, weights, states);
        return Array.from({ length: prompts }, (_, i) => ofPrompt(all, i));
      },
    });

    // 2. Noise, as tokens; modulation of all timesteps.
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      {
        noise: f32(...latents),
        images: shape.isMasked ? given.tokens : undefined,
        guidance: isGuided ? f32(1, channels) : undefined,
      },
      ({ noise, images, guidance }, graph) => {
        const times = Array.from(schedule.timesteps, roundedTimestep);
        const embedded = timestepConstant(graph, times, channels);
        // The image that is kept in part comes first, and is seen like the others.
        const image = images && slice(images, 1, 0, tokenCount(grid));
        return {
          ...beginSample(gridTokens(noise), image, { schedule, isMasked: shape.isMasked }),
          modulation: modulationTable(weights, embedded, hiddenSize(config), guidance),
        };
      },
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, modulation, kept } = begin.outputs;
    const preview = packedDecoder(vae, sizeOf(grid), grid.rows);
    const loop = session.stage("denoise", { repeats: schedule.timesteps.length });
    const denoiser = traceDenoiser(loop, shape, {
      schedule,
      sample,
      kept,
      noise: { shape: latents, arrange: gridTokens },
      passes: text.context.map((context) => ({ context, modulation, references: given.tokens })),
      predict: ({ modulation, step, ...inputs }, graph) =>
        flux2Transformer(graph, config, weights, {
          ...inputs,
          grid,
          referenceGrids: references,
          ranks: session.ranks,
          modulation: gather(modulation, step),
        }),
      preview,
    });

    // 4. Decode.
    const result = tokenResult(session, sample, preview, grid.rows);

    return async (work) => {
      const { guidanceScale, trueCfgScale = 1 } = work.request;
      const scale = isGuided ? trueCfgScale : guidanceScale;
      const guidance = isGuided
        ? timestepEmbedding([Math.fround(guidanceScale) * 1000], channels)
        : undefined;
      const draw = noiseOf(work.request, latents);
      const noise = draw();
      await given.run(work);
      await text.run(work);
      await work.run([begin.call({ noise, guidance })]);
      await denoiser.run(work, classifierFree(scale, prompts), draw, { noise });
      await result.run(work);
    };
  },
});
