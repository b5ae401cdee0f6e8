/**
 * Images with FLUX.1: from text, from an input image by strength, and with Kontext from an input image as a text says.
 * A mask may keep a part of an input image, which Fill was trained for. Canny and Depth draw after a picture of edges or
 * distances.
 *
 * A ControlNet may steer by a picture.
 *
 * Source: diffusers `FluxPipeline`, `FluxImg2ImgPipeline`, `FluxInpaintPipeline`, `FluxFillPipeline`,
 * `FluxControlPipeline`, `FluxKontextPipeline`, `FluxKontextInpaintPipeline`, `FluxControlNetPipeline`,
 * `FluxControlNetImg2ImgPipeline` and `FluxControlNetInpaintPipeline`.
 */
import { elementCount, f32, slice, type Tensor } from "../../../runtime/mod.ts";
import { klImageDecoder } from "../../autoencoders/kl/coders.ts";
import { PACKED_SIDE, packLatents, unpackLatents } from "../../autoencoders/kl/packing.ts";
import { unscaleLatents } from "../../autoencoders/kl/posterior.ts";
import { tinyImageCoder } from "../../autoencoders/tiny/coders.ts";
import { timestepConstant, timestepEmbedding } from "../../embeddings.ts";
import { embeddingLayers } from "../../layers.ts";
import { TorchGenerator } from "../../noise.ts";
import { ResultDecoder } from "../../pipeline/decoding.ts";
import { Denoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { classifierFree, guidedPrompts } from "../../pipeline/guidance.ts";
import { gridOf, noisyLatents, tokenCount, type TokenGrid } from "../../pipeline/latents.ts";
import { PromptEncoder } from "../../pipeline/prompts.ts";
import { rearrange } from "../../rearrange.ts";
import { samplingOf, strengthStart } from "../../schedulers/mod.ts";
import { clipTextEncoder } from "../../text_encoders/clip_text.ts";
import { t5TextEncoder } from "../../text_encoders/t5.ts";
import {
  drawsAfterPicture,
  FLUX1_PARTS,
  flux1Info,
  hiddenSize,
  isFill,
  KONTEXT,
} from "./config.ts";
import { ControlBranch } from "./control_branch.ts";
import { GivenImage } from "./given.ts";
import { FLUX1_FILES, ORIGINAL_FLUX1, XLABS_FLUX1 } from "./layouts.ts";
import {
  EMBEDDING_CHANNELS,
  EMBEDDING_SCALE,
  modulationOf,
  modulationTables,
} from "./modulation.ts";
import { flux1Schedule, modelTimestep } from "./schedule.ts";
import { flux1Context, flux1Transformer } from "./transformer.ts";

/** See the file comment. */
export const FLUX1 = defineFamily({
  classNames: [
    ...["FluxPipeline", "FluxImg2ImgPipeline", "FluxInpaintPipeline", "FluxFillPipeline"],
    ...["FluxControlNetPipeline", "FluxControlNetImg2ImgPipeline", "FluxControlNetInpaintPipeline"],
    ...["FluxControlPipeline", ...KONTEXT],
  ],
  files: FLUX1_FILES,
  parts: FLUX1_PARTS,
  lora: {
    transformer: { family: "FLUX.1", layouts: [ORIGINAL_FLUX1, XLABS_FLUX1] },
    textEncoder: "CLIP",
    textEncoderLayouts: [{
      name: "CLIP",
      prefixes: ["text_model.", "text_model_"],
      entries: [],
    }],
    textEncoder2: "T5",
  },

  info: flux1Info,

  prompts: (request) => guidedPrompts(request, (request.trueCfgScale ?? 1) > 1),

  shapeOf({ images = [], ...request }, { className, transformer }, prompts, { sizeMultiple }) {
    const { strength = 1, numInferenceSteps: steps } = request;
    const isKontext = KONTEXT.includes(className);
    const grids = [request, ...isKontext ? images : []].map((one) => gridOf(one, sizeMultiple));
    const isDrawnAfter = drawsAfterPicture(transformer.config);
    const isRedrawn = !isKontext && !isDrawnAfter && images.length > 0;
    const start = isRedrawn || request.mask ? strengthStart(steps, strength, "start") : 0;
    // Of pure noise nothing of the image is left; Fill sees it beside.
    const startsFromImage = isRedrawn && (start > 0 || !isFill(transformer.config));
    const largest = (side: keyof TokenGrid) =>
      Math.max(...grids.map((one) => one[side])) * PACKED_SIDE;
    return {
      // Every prompt is padded to the same number of tokens, and has a pass of its own.
      shape: {
        /** Of the result, then of the image that Kontext edits. */
        grids,
        ...{ prompts: prompts.lengths.length, rows: prompts.maxLength },
        ...{ startsFromImage, steps, start },
        ...samplingOf(request),
      },
      latents: [largest("rows"), largest("columns")],
    };
  },

  trace(session, parts, shape) {
    const { transformer, textEncoder, textEncoder2, vae, tinyDecoder, scheduler } = parts;
    const { controlnet } = parts;
    const { prompts, startsFromImage, tileSide } = shape;
    const [grid, reference] = shape.grids as [TokenGrid, TokenGrid?];
    const { config, weights: { root: weights } } = transformer;
    const schedule = flux1Schedule(scheduler, tokenCount(grid), shape.steps, shape);
    const sizeOf = ({ rows, columns }: TokenGrid) => ({
      height: rows * PACKED_SIDE,
      width: columns * PACKED_SIDE,
      tileSide,
    });
    const { height, width } = sizeOf(grid);
    const latents = [1, vae.config.latent_channels, height, width];
    const isGuided = config.guidance_embeds || shape.control && controlnet?.config.guidance_embeds;
    const packed = (x: Tensor) => packLatents(rearrange(x, "1 c y x -> 1 y x c"));

    // 1. Encode: the input image; the prompts by both encoders.
    const given = new GivenImage(session, vae, {
      latents,
      size: startsFromImage ? sizeOf(grid) : reference && sizeOf(reference),
      isDrawn: startsFromImage,
      fillSize: isFill(config) ? sizeOf(grid) : undefined,
      pictureSize: drawsAfterPicture(config) ? sizeOf(grid) : undefined,
    });
    const control = controlnet && shape.control
      ? new ControlBranch(session, controlnet, vae, { latents, size: sizeOf(grid) })
      : undefined;
    const clip = clipTextEncoder(textEncoder, parts.pooledTokenizer!.tokenizer.padId);
    const t5 = t5TextEncoder(textEncoder2, parts.tokenizer.padId, { seesPadding: true });
    const text = new PromptEncoder(session, t5, shape, {
      pooled: clip,
      trace: ({ states, pooled }) => {
        const all = flux1Context(config, weights, states);
        const embedder = weights.scope("time_text_embed").scope("text_embedder");
        const summaries = embeddingLayers(embedder, pooled!, hiddenSize(config));
        const own = Array.from({ length: prompts }, (_, i) => ({
          context: slice(all, 0, i, i + 1),
          summary: slice(summaries, 0, i, i + 1),
        }));
        return { prompts: own, control: control?.prompt(states, pooled!) };
      },
    });

    // 2. Noise, added to the input image's latents, as tokens; modulation of all timesteps.
    const { timesteps, sigmas } = schedule;
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      {
        noise: f32(...latents),
        ...given.inputs,
        guidance: isGuided ? f32(1, EMBEDDING_CHANNELS) : undefined,
        summaries: text.context.prompts.map(({ summary }) => summary),
        controlSummary: text.context.control?.summary,
      },
      ({ noise, guidance, summaries, controlSummary, ...images }, graph) => {
        const noisy = packed(noise);
        const { image, conditions } = given.trace(images);
        const isNoised = startsFromImage || shape.isMasked;
        const times = Array.from(timesteps, modelTimestep);
        const embedded = timestepConstant(graph, times, EMBEDDING_CHANNELS);
        return {
          sample: image && isNoised ? noisyLatents(image, noisy, sigmas[0]!) : noisy,
          // Fill keeps what it shall by itself.
          kept: shape.isMasked && !conditions ? image : undefined,
          conditions,
          reference: reference && image,
          modulations: summaries.map((summary) =>
            modulationTables(config, weights, { timesteps: embedded, guidance, summary })
          ),
          controlTables: controlSummary && control?.tables({
            ...{ timesteps: embedded, guidance, summary: controlSummary },
          }),
        };
      },
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, modulations, kept, controlTables, ...beside } = begin.outputs;
    const seen = { reference: beside.reference, conditions: beside.conditions };
    // The autoencoder's latents are scaled, those of a tiny decoder are not.
    const decoderOf = (tiny: typeof tinyDecoder) => ({
      decoder: tiny ? tinyImageCoder(tiny, sizeOf(grid)) : klImageDecoder(vae, sizeOf(grid)),
      decoded: (tokens: Tensor) => {
        const latents = unpackLatents(tokens, grid.rows);
        return tiny ? latents : unscaleLatents(vae.config, latents);
      },
    });
    const loop = session.stage("denoise", { repeats: timesteps.length });
    const denoiser = new Denoiser(loop, shape, {
      ...{ schedule, sample, kept },
      noise: { shape: latents, arrange: packed },
      passes: text.context.prompts.map(({ context }, i) => ({
        ...{ context, ...seen, ...modulations[i]! },
      })),
      predict: (inputs, graph, { isSteered }) =>
        flux1Transformer(graph, config, weights, {
          ...{ ...inputs, grids: shape.grids, ranks: session.ranks },
          modulation: modulationOf(inputs, inputs.step, hiddenSize(config)),
          control: isSteered && controlTables
            ? control?.residuals(text.context.control!.context, controlTables, { ...inputs, grid })
            : undefined,
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
      const { seed, guidanceScale, trueCfgScale = 1 } = work.request;
      const generator = new TorchGenerator(seed);
      const draw = () => generator.randn(elementCount(latents));
      // The noise of the control picture comes first.
      const pictureNoise = control && draw();
      const { noise, ...drawn } = given.draw(draw);
      const guidance = isGuided
        ? timestepEmbedding([guidanceScale * EMBEDDING_SCALE], EMBEDDING_CHANNELS)
        : undefined;
      const seen = await given.run(work);
      await text.run(work);
      await control?.run(work, pictureNoise!);
      await work.run([begin.call({ noise, ...drawn, ...seen, guidance })]);
      await denoiser.run(work, classifierFree(trueCfgScale, prompts), draw, { noise });
      await result.run(work);
    };
  },
});
