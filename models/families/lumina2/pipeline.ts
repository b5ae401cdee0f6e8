/**
 * Images with Lumina-Image 2.0: from text, from an input image by strength, and with a mask.
 * Source: diffusers `Lumina2Pipeline`; input images are encoded as in `ZImageImg2ImgPipeline`.
 */
import { f32, type Tensor } from "../../../runtime/mod.ts";
import { scaleLatents } from "../../autoencoders/kl/posterior.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { klCodec, klImages } from "../../pipeline/kl_coders.ts";
import { beginSample, gridOf, latentSize, noiseOf, StartImage } from "../../pipeline/latents.ts";
import { ofPrompt, PromptEncoder } from "../../pipeline/prompts.ts";
import { rearrange } from "../../rearrange.ts";
import { imageSteps, linspace } from "../../schedulers/mod.ts";
import { gemma2TextEncoder } from "../../text_encoders/gemma2.ts";
import { patchesOf } from "../z_image/positions.ts";
import { LUMINA2_PARTS, lumina2Info, PATCH_SIDE } from "./config.ts";
import { LUMINA2_FILES, ORIGINAL_LUMINA2 } from "./layouts.ts";
import { elapsedTime, isNormed, lumina2Guidance, normedGuidance } from "./sampling.ts";
import { lumina2Context, lumina2Transformer, timestepTable } from "./transformer.ts";

const SYSTEM_PROMPT =
  "You are an assistant designed to generate superior images with the superior degree of image-text alignment based on textual prompts or user prompts.";

export const LUMINA2 = defineFamily({
  classNames: ["Lumina2Pipeline", "Lumina2Text2ImgPipeline"],
  files: LUMINA2_FILES,
  parts: LUMINA2_PARTS,
  lora: {
    transformer: { family: "Lumina 2", layouts: [ORIGINAL_LUMINA2] },
    textEncoder: "Gemma 2",
  },

  info: lumina2Info,

  check({ width, height }, { transformer }, { sizeMultiple }) {
    const [, rows, columns] = transformer.config.axes_lens.map((length) => length * sizeMultiple);
    if (height <= rows! && width <= columns!) return;
    throw new RangeError(
      `Cannot make ${width}x${height}: the model has positions for ${columns}x${rows}; ask for a smaller size`,
    );
  },

  prompts({ prompt, negativePrompt, guidanceScale, systemPrompt = SYSTEM_PROMPT }) {
    const whole = `${systemPrompt} <Prompt Start> ${prompt}`;
    return guidanceScale > 1 ? [whole, negativePrompt] : [whole];
  },

  shapeOf(request, _, { lengths }, { sizeMultiple }) {
    const grid = gridOf(request, sizeMultiple);
    const startsFromImage = request.task === "TI2I";
    const shape = {
      grid,
      startsFromImage,
      /** Tokens of every prompt; each has a pass of its own. */
      textTokens: lengths,
      isNormed: lengths.length > 1 && isNormed(request),
      ...imageSteps(request, startsFromImage),
    };
    return { shape, latents: [latentSize(grid, PATCH_SIDE)] };
  },

  trace(session, parts, shape) {
    const { transformer, textEncoder, vae, tokenizer, scheduler } = parts;
    const { grid, steps, textTokens, tileSide } = shape;
    const { config, weights: { root: weights } } = transformer;
    const sigmas = shape.sigmas ?? linspace(1, 1 / steps, steps);
    const schedule = scheduler.setTimesteps(steps, { ...shape, sigmas });
    const { timesteps } = schedule;
    const size = { ...latentSize(grid, PATCH_SIDE), tileSide };
    const latents = [1, config.in_channels, size.height, size.width];
    const sides = { y: grid.rows, i: PATCH_SIDE, j: PATCH_SIDE };
    const toPatches = (x: Tensor) => rearrange(x, "1 c (y i) (x j) -> 1 (y x) (i j c)", sides);
    const fromPatches = (x: Tensor) => rearrange(x, "1 (y x) (i j c) -> 1 (y i) (x j) c", sides);
    const images = klImages(parts, size, fromPatches);

    // 1. Encode: the input image; the prompts, by the text encoder and the context refiner.
    const encoder = shape.startsFromImage
      ? new ImageEncoder(session, klCodec(vae), [size])
      : undefined;
    const imagePatches = (x: Tensor) => patchesOf(scaleLatents(vae.config, x));
    const start = new StartImage(encoder?.moments[0], latents, imagePatches);
    const layer = textEncoder.config.num_hidden_layers - 1;
    const gemma = gemma2TextEncoder(textEncoder, tokenizer.padId, layer);
    const [prompts, rows] = [textTokens.length, Math.max(...textTokens)];
    const text = new PromptEncoder(session, gemma, { prompts, rows }, {
      trace: ({ states }, graph) =>
        textTokens.map((count, i) =>
          graph.scope(`prompt ${i}`, () => {
            const own = ofPrompt(states, i, [0, count]);
            return lumina2Context(graph, config, weights, own);
          })
        ),
    });

    // 2. Noise, added to the input image's latents, as patches; modulation of all timesteps.
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      { noise: f32(...latents), ...start.inputs },
      ({ noise, ...image }, graph) => ({
        ...beginSample(toPatches(noise), start.trace(image), {
          schedule,
          isMasked: shape.isMasked,
        }),
        times: timestepTable(graph, config, weights, Array.from(timesteps, elapsedTime)),
      }),
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, kept, times } = begin.outputs;
    const loop = session.stage("denoise", { repeats: timesteps.length });
    const denoiser = traceDenoiser(loop, shape, {
      schedule,
      sample,
      kept,
      noise: { shape: latents, arrange: toPatches },
      passes: text.context.map((context) => ({ context, times })),
      predict: (inputs, graph) =>
        lumina2Transformer(graph, config, weights, { ...inputs, grid, ranks: session.ranks }),
      guidance: shape.isNormed ? normedGuidance(grid) : undefined,
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
      const guidance = lumina2Guidance(work.request, timesteps.length, prompts);
      await denoiser.run(work, guidance, draw, drawn);
      await result.run(work);
    };
  },
});
