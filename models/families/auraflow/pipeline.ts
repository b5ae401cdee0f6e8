/**
 * Images with AuraFlow: from text, from an input image by strength, and with a mask.
 * Source: diffusers `AuraFlowPipeline`; input images are encoded as in `StableDiffusion3Img2ImgPipeline`.
 */
import { f32, type Tensor } from "../../../runtime/mod.ts";
import { packLatents, unpackLatents } from "../../autoencoders/kl/packing.ts";
import { scaleLatents } from "../../autoencoders/kl/posterior.ts";
import { unitTimestep } from "../../blocks/embeddings.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { classifierFree, guidedPrompts } from "../../pipeline/guidance.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { klCodec, klImages } from "../../pipeline/kl_coders.ts";
import { beginSample, gridOf, latentSize, noiseOf, StartImage } from "../../pipeline/latents.ts";
import { ofPrompt, PromptEncoder } from "../../pipeline/prompts.ts";
import { rearrange } from "../../rearrange.ts";
import { imageSteps } from "../../schedulers/mod.ts";
import { umt5TextEncoder } from "../../text_encoders/umt5.ts";
import { AURAFLOW_PARTS, auraFlowInfo, PATCH_SIDE, tableSide } from "./config.ts";
import { AURAFLOW_FILES, ORIGINAL_AURAFLOW } from "./layouts.ts";
import { auraFlowContext, auraFlowTables, auraFlowTransformer } from "./transformer.ts";

export const AURAFLOW = defineFamily({
  classNames: ["AuraFlowPipeline"],
  files: AURAFLOW_FILES,
  parts: AURAFLOW_PARTS,
  lora: { transformer: { family: "AuraFlow", layouts: [ORIGINAL_AURAFLOW] }, textEncoder: "UMT5" },

  info: auraFlowInfo,

  check({ width, height }, { transformer }, { sizeMultiple }) {
    const most = tableSide(transformer.config) * sizeMultiple;
    if (Math.max(width, height) <= most) return;
    throw new RangeError(
      `Cannot make ${width}x${height}: the model has positions for ${most}x${most}; ask for a smaller size`,
    );
  },

  prompts: (request) => guidedPrompts(request),

  shapeOf(request, _, { lengths, maxLength }, { sizeMultiple }) {
    const grid = gridOf(request, sizeMultiple);
    const startsFromImage = request.task === "TI2I";
    const shape = {
      grid,
      startsFromImage,
      prompts: lengths.length,
      /** Every prompt is filled up to as many tokens as one may have, and the transformer attends all of them. */
      rows: maxLength,
      ...imageSteps(request, startsFromImage),
    };
    return { shape, latents: [latentSize(grid, PATCH_SIDE)] };
  },

  trace(session, parts, shape) {
    const { transformer, textEncoder, vae, scheduler } = parts;
    const { grid, prompts, rows, tileSide } = shape;
    const { config, weights: { root: weights } } = transformer;
    const schedule = scheduler.setTimesteps(shape.steps, shape);
    const size = { ...latentSize(grid, PATCH_SIDE), tileSide };
    const latents = [1, config.in_channels, size.height, size.width];
    const sides = { y: grid.rows, i: PATCH_SIDE, j: PATCH_SIDE };
    const toPatches = (x: Tensor) => rearrange(x, "1 c (y i) (x j) -> 1 (y x) (c i j)", sides);
    // The output's channels come last within a patch, those of what is embedded first.
    const inOrder = (x: Tensor) => rearrange(x, "1 n (i j c) -> 1 n (c i j)", sides);
    const images = klImages(parts, size, (x) => unpackLatents(x, grid.rows));

    // 1. Encode: the input image; the prompts, whose states are 0 behind their tokens.
    const encoder = shape.startsFromImage
      ? new ImageEncoder(session, klCodec(vae), [size])
      : undefined;
    const imagePatches = (x: Tensor) => packLatents(scaleLatents(vae.config, x));
    const start = new StartImage(encoder?.moments[0], latents, imagePatches);
    const text = new PromptEncoder(session, umt5TextEncoder(textEncoder), { prompts, rows }, {
      trace: ({ states }) =>
        Array.from(
          { length: prompts },
          (_, i) => auraFlowContext(config, weights, ofPrompt(states, i)),
        ),
    });

    // 2. Noise, added to the input image's latents, as patches; vectors of all timesteps.
    const times = Array.from(schedule.timesteps, unitTimestep);
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      { noise: f32(...latents), ...start.inputs },
      ({ noise, ...image }, graph) => ({
        ...beginSample(toPatches(noise), start.trace(image), {
          schedule,
          isMasked: shape.isMasked,
        }),
        ...auraFlowTables(graph, config, weights, times),
      }),
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, kept, ...tables } = begin.outputs;
    const loop = session.stage("denoise", { repeats: times.length });
    const denoiser = traceDenoiser(loop, shape, {
      schedule,
      sample,
      kept,
      noise: { shape: latents, arrange: toPatches },
      passes: text.context.map((context) => ({ context, ...tables })),
      predict: (inputs, graph) =>
        inOrder(
          auraFlowTransformer(graph, config, weights, { ...inputs, grid, ranks: session.ranks }),
        ),
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
