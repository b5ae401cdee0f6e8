/**
 * Images with Chroma: from text, or from an input image by strength, of which a mask may keep a part.
 * Source: diffusers `ChromaPipeline`, `ChromaImg2ImgPipeline` and `ChromaInpaintPipeline`, whose mask of the text is
 * taken for what it is meant to be: https://github.com/huggingface/diffusers/issues/13619.
 */
import { f32, type Tensor } from "../../../runtime/mod.ts";
import { roundedTimestep } from "../../blocks/embeddings.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { klCodec, klImages } from "../../pipeline/kl_coders.ts";
import { PACKED_SIDE, packLatents, unpackLatents } from "../../autoencoders/kl/packing.ts";
import { scaleLatents } from "../../autoencoders/kl/posterior.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { classifierFree, guidedPrompts } from "../../pipeline/guidance.ts";
import {
  beginSample,
  gridOf,
  latentSize,
  noiseOf,
  StartImage,
  tokenCount,
} from "../../pipeline/latents.ts";
import { ofPrompt, PromptEncoder } from "../../pipeline/prompts.ts";
import { rearrange } from "../../rearrange.ts";
import { imageSchedule, imageSteps } from "../../schedulers/mod.ts";
import { t5TextEncoder } from "../../text_encoders/t5.ts";
import { flux1Context } from "../flux1/blocks.ts";
import { flux1Transformer } from "../flux1/transformer.ts";
import { CHROMA_PARTS, chromaInfo } from "./config.ts";
import { CHROMA_FILES, ORIGINAL_CHROMA } from "./layouts.ts";
import { chromaModulation } from "./modulation.ts";

const SEEN_PADDING = 1;

export const CHROMA = defineFamily({
  classNames: ["ChromaPipeline", "ChromaImg2ImgPipeline", "ChromaInpaintPipeline"],
  files: CHROMA_FILES,
  parts: CHROMA_PARTS,
  lora: { transformer: { family: "Chroma", layouts: [ORIGINAL_CHROMA] }, textEncoder: "T5" },

  info: chromaInfo,

  prompts: (request) => guidedPrompts(request),

  shapeOf({ images = [], ...request }, _, { lengths, maxLength }, { sizeMultiple }) {
    const grid = gridOf(request, sizeMultiple);
    const startsFromImage = images.length > 0;
    const shape = {
      /** Tokens of every prompt, which has a pass of its own, and rows of all with their padding. */
      textTokens: lengths.map((length) => Math.min(length + SEEN_PADDING, maxLength)),
      rows: maxLength,
      grid,
      startsFromImage,
      ...imageSteps(request, startsFromImage),
    };
    return { shape, latents: [latentSize(grid, PACKED_SIDE)] };
  },

  trace(session, { transformer, textEncoder, vae, tinyDecoder, tokenizer, scheduler }, shape) {
    const { grid, textTokens, rows, startsFromImage, tileSide } = shape;
    const { config, weights: { root: weights } } = transformer;
    const schedule = imageSchedule(scheduler, tokenCount(grid), shape.steps, shape);
    const size = { ...latentSize(grid, PACKED_SIDE), tileSide };
    const latents = [1, vae.config.latent_channels, size.height, size.width];
    const packed = (x: Tensor) => packLatents(rearrange(x, "1 c y x -> 1 y x c"));

    // 1. Encode: the input image; the prompts, of which a token of padding is seen.
    const encoder = startsFromImage ? new ImageEncoder(session, klCodec(vae), [size]) : undefined;
    const imageTokens = (x: Tensor) => packLatents(scaleLatents(vae.config, x));
    const start = new StartImage(encoder?.moments[0], latents, imageTokens);
    const prompts = textTokens.length;
    const t5 = t5TextEncoder(textEncoder, tokenizer.padId, { seesPadding: false });
    const text = new PromptEncoder(session, t5, { prompts, rows }, {
      trace: ({ states }) =>
        textTokens.map((count, i) =>
          flux1Context(config, weights, ofPrompt(states, i, [0, count]))
        ),
    });

    // 2. Noise, added to the input image's latents, as tokens.
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      { noise: f32(...latents), ...start.inputs },
      ({ noise, ...image }) => {
        return beginSample(packed(noise), start.trace(image), { ...shape, schedule });
      },
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, kept } = begin.outputs;
    const images = klImages({ vae, tinyDecoder }, size, (x) => unpackLatents(x, grid.rows));
    const times = Array.from(schedule.timesteps, roundedTimestep);
    const loop = session.stage("denoise", { repeats: times.length });
    const denoiser = traceDenoiser(loop, shape, {
      schedule,
      sample,
      kept,
      noise: { shape: latents, arrange: packed },
      passes: text.context.map((context) => ({ context })),
      predict: ({ step, ...inputs }, graph) =>
        flux1Transformer(graph, config, weights, {
          ...inputs,
          grids: [grid],
          ranks: session.ranks,
          modulation: chromaModulation(graph, config, weights, times, step),
        }),
      preview: images.preview,
    });

    // 4. Decode.
    const result = images.result(session, sample, shape);

    return async (work) => {
      const draw = noiseOf(work.request, latents);
      const drawn = start.draw(draw);
      await encoder?.run(work);
      await text.run(work);
      await work.run([begin.call(drawn)]);
      const guidance = classifierFree(work.request.guidanceScale, prompts);
      await denoiser.run(work, guidance, draw, drawn);
      await result.run(work);
    };
  },
});
