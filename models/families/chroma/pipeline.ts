/**
 * Images with Chroma: from text, and from an input image by strength, of which a mask may keep a part.
 *
 * Source: diffusers `ChromaPipeline`, `ChromaImg2ImgPipeline` and `ChromaInpaintPipeline`, whose mask of the text is
 * taken for what it is meant to be: https://github.com/huggingface/diffusers/issues/13619.
 */
import { elementCount, f32, slice, type Tensor } from "../../../runtime/mod.ts";
import { klImageDecoder } from "../../autoencoders/kl/coders.ts";
import { PACKED_SIDE, packLatents, unpackLatents } from "../../autoencoders/kl/packing.ts";
import { unscaleLatents } from "../../autoencoders/kl/posterior.ts";
import { tinyImageCoder } from "../../autoencoders/tiny/coders.ts";
import { TorchGenerator } from "../../noise.ts";
import { ResultDecoder } from "../../pipeline/decoding.ts";
import { Denoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { classifierFree, guidedPrompts } from "../../pipeline/guidance.ts";
import { gridOf, noisyLatents, tokenCount } from "../../pipeline/latents.ts";
import { PromptEncoder } from "../../pipeline/prompts.ts";
import { rearrange } from "../../rearrange.ts";
import { samplingOf, strengthStart } from "../../schedulers/mod.ts";
import { t5TextEncoder } from "../../text_encoders/t5.ts";
import { GivenImage } from "../flux1/given.ts";
import { flux1Schedule, modelTimestep } from "../flux1/schedule.ts";
import { flux1Context, flux1Transformer } from "../flux1/transformer.ts";
import { CHROMA_PARTS, chromaInfo } from "./config.ts";
import { CHROMA_FILES, ORIGINAL_CHROMA } from "./layouts.ts";
import { chromaModulation } from "./modulation.ts";

/** Tokens of padding that the transformer sees of a prompt. */
const SEEN_PADDING = 1;

/** See the file comment. */
export const CHROMA = defineFamily({
  classNames: ["ChromaPipeline", "ChromaImg2ImgPipeline", "ChromaInpaintPipeline"],
  files: CHROMA_FILES,
  parts: CHROMA_PARTS,
  lora: { transformer: { family: "Chroma", layouts: [ORIGINAL_CHROMA] }, textEncoder: "T5" },

  info: chromaInfo,

  prompts: (request) => guidedPrompts(request),

  shapeOf({ images = [], ...request }, _, { lengths, maxLength }, { sizeMultiple }) {
    const { strength = 1, numInferenceSteps: steps } = request;
    const grid = gridOf(request, sizeMultiple);
    const startsFromImage = images.length > 0;
    const shape = {
      /** Of every prompt, which has a pass of its own, and of all with their padding. */
      textTokens: lengths.map((length) => Math.min(length + SEEN_PADDING, maxLength)),
      rows: maxLength,
      ...{ grid, startsFromImage, steps },
      start: startsFromImage ? strengthStart(steps, strength, "start") : 0,
      ...samplingOf(request),
    };
    return { shape, latents: [grid.rows * PACKED_SIDE, grid.columns * PACKED_SIDE] };
  },

  trace(session, { transformer, textEncoder, vae, tinyDecoder, tokenizer, scheduler }, shape) {
    const { grid, textTokens, rows, startsFromImage, tileSide } = shape;
    const { config, weights: { root: weights } } = transformer;
    const schedule = flux1Schedule(scheduler, tokenCount(grid), shape.steps, shape);
    const [height, width] = [grid.rows * PACKED_SIDE, grid.columns * PACKED_SIDE];
    const size = { height, width, tileSide };
    const latents = [1, vae.config.latent_channels, height, width];
    const packed = (x: Tensor) => packLatents(rearrange(x, "1 c y x -> 1 y x c"));

    // 1. Encode: the input image; the prompts, of which a token of padding is seen.
    const given = new GivenImage(session, vae, {
      ...{ latents, size: startsFromImage ? size : undefined },
      ...{ isDrawn: startsFromImage, fillSize: undefined },
    });
    const prompts = textTokens.length;
    const t5 = t5TextEncoder(textEncoder, tokenizer.padId, { seesPadding: false });
    const text = new PromptEncoder(session, t5, { prompts, rows }, {
      trace: ({ states }) =>
        textTokens.map((count, i) =>
          flux1Context(config, weights, slice(slice(states, 0, i, i + 1), 1, 0, count))
        ),
    });

    // 2. Noise, added to the input image's latents, as tokens.
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      { noise: f32(...latents), ...given.inputs },
      ({ noise, ...images }) => {
        const noisy = packed(noise);
        const { image } = given.trace(images);
        return {
          sample: image ? noisyLatents(image, noisy, schedule.sigmas[0]!) : noisy,
          kept: shape.isMasked ? image : undefined,
        };
      },
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, kept } = begin.outputs;
    // The autoencoder's latents are scaled, those of a tiny decoder are not.
    const decoderOf = (tiny: typeof tinyDecoder) => ({
      decoder: tiny ? tinyImageCoder(tiny, size) : klImageDecoder(vae, size),
      decoded: (tokens: Tensor) => {
        const latents = unpackLatents(tokens, grid.rows);
        return tiny ? latents : unscaleLatents(vae.config, latents);
      },
    });
    const times = Array.from(schedule.timesteps, modelTimestep);
    const loop = session.stage("denoise", { repeats: times.length });
    const denoiser = new Denoiser(loop, shape, {
      ...{ schedule, sample, kept },
      noise: { shape: latents, arrange: packed },
      passes: text.context.map((context) => ({ context })),
      predict: ({ step, ...inputs }, graph) =>
        flux1Transformer(graph, config, weights, {
          ...{ ...inputs, grids: [grid], ranks: session.ranks },
          modulation: chromaModulation(graph, config, weights, times, step),
        }),
      preview: decoderOf(tinyDecoder),
    });

    // 4. Decode.
    const { decoder, decoded } = decoderOf(shape.isTinyDecoded ? tinyDecoder : undefined);
    const result = new ResultDecoder(session, { sample }, decoder, ({ sample }) => ({
      decoded: decoded(sample),
      latents: rearrange(unpackLatents(sample, grid.rows), "1 y x c -> 1 c y x"),
    }));

    return async (work) => {
      const { seed, guidanceScale } = work.request;
      const generator = new TorchGenerator(seed);
      const draw = () => generator.randn(elementCount(latents));
      const { noise, ...drawn } = given.draw(draw);
      const seen = await given.run(work);
      await text.run(work);
      await work.run([begin.call({ noise, ...drawn, ...seen })]);
      await denoiser.run(work, classifierFree(guidanceScale, prompts), draw, { noise });
      await result.run(work);
    };
  },
});
