/**
 * Images with FLUX.2, klein and dev: from text, and from input images as a text says; a mask may keep a part of the first.
 * Source: diffusers `Flux2KleinPipeline`, `Flux2KleinInpaintPipeline` and `Flux2Pipeline`.
 */
import { concat, f32, gather, slice, type Tensor } from "../../../runtime/mod.ts";
import { tiledDecoder } from "../../autoencoders/tiled_coder.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { klCodec } from "../../pipeline/kl_coders.ts";
import {
  denormaliseTokens,
  normaliseTokens,
  PACKED_SIDE,
  packLatents,
  unpackLatents,
} from "../../autoencoders/kl/packing.ts";
import { posteriorMode } from "../../autoencoders/kl/posterior.ts";
import { roundedTimestep, timestepConstant, timestepEmbedding } from "../../blocks/embeddings.ts";
import { ResultDecoder } from "../../pipeline/decoding.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { classifierFree } from "../../pipeline/guidance.ts";
import {
  beginSample,
  gridOf,
  latentSize,
  noiseOf,
  tokenCount,
  type TokenGrid,
} from "../../pipeline/latents.ts";
import { ofPrompt, PromptEncoder } from "../../pipeline/prompts.ts";
import { rearrange } from "../../rearrange.ts";
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
    const images = references.length > 0
      ? new ImageEncoder(session, klCodec(vae), references.map(sizeOf))
      : undefined;
    const tokens = images?.stage.program("tokens", { all: images.moments }, ({ all }) => {
      const packed = all.map((moments) => packLatents(posteriorMode(moments)));
      return normaliseTokens(vae.config, vae.weights.root, concat(packed, 1));
    });
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
        images: shape.isMasked ? tokens?.outputs : undefined,
        guidance: isGuided ? f32(1, channels) : undefined,
      },
      ({ noise, images, guidance }, graph) => {
        const times = Array.from(schedule.timesteps, roundedTimestep);
        const embedded = timestepConstant(graph, times, channels);
        const noisy = rearrange(noise, "1 c y x -> 1 (y x) c");
        // The image that is kept in part comes first, and is seen like the others.
        const image = images && slice(images, 1, 0, tokenCount(grid));
        return {
          ...beginSample(noisy, image, { schedule, isMasked: shape.isMasked }),
          modulation: modulationTable(weights, embedded, hiddenSize(config), guidance),
        };
      },
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, modulation, kept } = begin.outputs;
    const decoder = tiledDecoder(klCodec(vae), sizeOf(grid));
    const decoded = (tokens: Tensor) =>
      unpackLatents(denormaliseTokens(vae.config, vae.weights.root, tokens), grid.rows);
    const loop = session.stage("denoise", { repeats: schedule.timesteps.length });
    const denoiser = traceDenoiser(loop, shape, {
      schedule,
      sample,
      kept,
      noise: { shape: latents, arrange: (noise) => rearrange(noise, "1 c y x -> 1 (y x) c") },
      passes: text.context.map((context) => ({ context, modulation, references: tokens?.outputs })),
      predict: ({ modulation, step, ...inputs }, graph) =>
        flux2Transformer(graph, config, weights, {
          ...inputs,
          grid,
          referenceGrids: references,
          ranks: session.ranks,
          modulation: gather(modulation, step),
        }),
      preview: { decoder, decoded },
    });

    // 4. Decode.
    const result = new ResultDecoder(session, { sample }, decoder, ({ sample }) => ({
      decoded: decoded(sample),
      latents: rearrange(sample, "1 (y x) c -> 1 c y x", { y: grid.rows }),
    }));

    return async (work) => {
      const { guidanceScale, trueCfgScale = 1 } = work.request;
      const scale = isGuided ? trueCfgScale : guidanceScale;
      const guidance = isGuided
        ? timestepEmbedding([Math.fround(guidanceScale) * 1000], channels)
        : undefined;
      const draw = noiseOf(work.request, latents);
      const noise = draw();
      await images?.run(work);
      if (tokens) await work.run([tokens.call({})]);
      await text.run(work);
      await work.run([begin.call({ noise, guidance })]);
      await denoiser.run(work, classifierFree(scale, prompts), draw, { noise });
      await result.run(work);
    };
  },
});
