/**
 * Images with Z-Image: from text, from an input image by strength, with a mask, and with ControlNets.
 * Source: diffusers `ZImagePipeline`, `ZImageImg2ImgPipeline`, `ZImageInpaintPipeline` and the `ZImageControlNet*` pipelines.
 */
import { f32, gather, type Tensor } from "../../../runtime/mod.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { klCodec, klImages } from "../../pipeline/kl_coders.ts";
import { scaleLatents } from "../../autoencoders/kl/posterior.ts";
import { timestepConstant } from "../../blocks/embeddings.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { guidedPrompts } from "../../pipeline/guidance.ts";
import {
  beginSample,
  gridOf,
  latentSize,
  noiseOf,
  StartImage,
  tokenCount,
} from "../../pipeline/latents.ts";
import { ofPrompt, PromptEncoder, promptMasks } from "../../pipeline/prompts.ts";
import { rearrange } from "../../rearrange.ts";
import { imageSteps } from "../../schedulers/mod.ts";
import { qwenTextEncoder } from "../../text_encoders/qwen.ts";
import { qwen3ChatPrompt } from "../../tokenizers/mod.ts";
import { controlSeesMask, PATCH_SIDE, Z_IMAGE_PARTS, zImageInfo } from "./config.ts";
import { traceControlBranch } from "./control.ts";
import {
  checkGuidance,
  elapsedTime,
  LIMITED_GUIDANCE,
  zImageGuidance,
  zImageSchedule,
} from "./sampling.ts";
import { ORIGINAL_Z_IMAGE, Z_IMAGE_FILES } from "./layouts.ts";
import { modulationTable, TIMESTEP_FREQUENCIES } from "./modulation.ts";
import { paddedCount, patchesOf } from "./positions.ts";
import { zImageContext, zImageTransformer } from "./transformer.ts";

export const Z_IMAGE = defineFamily({
  classNames: [
    "ZImagePipeline",
    "ZImageImg2ImgPipeline",
    "ZImageInpaintPipeline",
    "ZImageControlNetPipeline",
    "ZImageControlNetInpaintPipeline",
  ],
  files: Z_IMAGE_FILES,
  parts: Z_IMAGE_PARTS,
  lora: {
    transformer: { family: "Z-Image", layouts: [ORIGINAL_Z_IMAGE] },
    textEncoder: "Qwen3",
  },

  info: zImageInfo,

  check(request, { transformer }, { sizeMultiple }) {
    checkGuidance(request);
    const { width, height } = request;
    const [, rows, columns] = transformer.config.axes_lens.map((length) => length * sizeMultiple);
    if (height <= rows! && width <= columns!) return;
    throw new RangeError(
      `Cannot make ${width}x${height}: the model has positions for ${columns}x${rows}; ask for a smaller size`,
    );
  },

  prompts: (request) =>
    guidedPrompts(request, request.guidanceScale > 0)
      .map((text) => qwen3ChatPrompt(text, { hasThinkBlock: false })),

  shapeOf(request, parts, { lengths }, { sizeMultiple }) {
    const grid = gridOf(request, sizeMultiple);
    const seesMask = controlSeesMask(request, parts);
    // Of the image nothing is left in such noise, and the ControlNet shows what is kept of it.
    const startsFromImage = request.task === "TI2I" && !(seesMask && (request.strength ?? 1) === 1);
    const shape = {
      grid,
      /** Tokens of every prompt; each has a pass of its own. */
      textTokens: lengths.map(paddedCount),
      startsFromImage,
      seesMask,
      isLimited: lengths.length > 1 && request.guidanceLimit !== undefined,
      ...imageSteps(request, startsFromImage),
    };
    return { shape, latents: [latentSize(grid, PATCH_SIDE)] };
  },

  trace(session, parts, shape) {
    const { transformer, textEncoder, vae, tokenizer, scheduler, controlnet } = parts;
    const { grid, textTokens, tileSide } = shape;
    const { config, weights: { root: weights } } = transformer;
    const schedule = zImageSchedule(scheduler, tokenCount(grid), shape.steps, shape);
    const size = { ...latentSize(grid, PATCH_SIDE), tileSide };
    const latents = [1, config.in_channels, size.height, size.width];
    const patches = { y: grid.rows, i: PATCH_SIDE, j: PATCH_SIDE };
    const toPatches = (x: Tensor) => rearrange(x, "1 c (y i) (x j) -> 1 (y x) (i j c)", patches);
    const fromPatches = (x: Tensor) => rearrange(x, "1 (y x) (i j c) -> 1 (y i) (x j) c", patches);
    const images = klImages(parts, size, fromPatches);

    // 1. Encode: the input image; the prompts, by the text encoder and the context refiner.
    const encoder = shape.startsFromImage
      ? new ImageEncoder(session, klCodec(vae), [size])
      : undefined;
    const imagePatches = (x: Tensor) => patchesOf(scaleLatents(vae.config, x));
    const start = new StartImage(encoder?.moments[0], latents, imagePatches);
    const control = controlnet && shape.control
      ? traceControlBranch(session, { controlnet, transformer, vae }, size, {
        isMasked: shape.seesMask,
        steps: schedule.timesteps.length,
      })
      : undefined;
    const layer = textEncoder.config.num_hidden_layers - 1;
    const qwen3 = qwenTextEncoder(textEncoder, tokenizer.padId, [layer]);
    const [prompts, rows] = [textTokens.length, Math.max(...textTokens)];
    const text = new PromptEncoder(session, qwen3, { prompts, rows }, {
      inputs: { masks: f32(prompts, rows, 1) },
      values: ({ tokens }) => ({ masks: promptMasks(tokens, rows) }),
      trace: ({ states, masks }, graph) =>
        textTokens.map((count, i) => {
          const own = (x: Tensor) => ofPrompt(x, i, [0, count]);
          return graph.scope(
            `prompt ${i}`,
            () => zImageContext(graph, config, weights, own(states), own(masks)),
          );
        }),
    });

    // 2. Noise, added to the input image's latents, as patches; modulation of all timesteps.
    const { timesteps } = schedule;
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      { noise: f32(...latents), ...start.inputs },
      ({ noise, ...image }, graph) => {
        const times = Array.from(timesteps, (t) => Math.fround(elapsedTime(t) * config.t_scale));
        const embedded = timestepConstant(graph, times, TIMESTEP_FREQUENCIES);
        return {
          ...beginSample(toPatches(noise), start.trace(image), {
            schedule,
            isMasked: shape.isMasked && !shape.seesMask,
          }),
          modulation: modulationTable(config, weights, embedded),
          controlTable: control?.table(embedded),
        };
      },
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, modulation, controlTable, kept } = begin.outputs;
    const loop = session.stage("denoise", { repeats: timesteps.length });
    const denoiser = traceDenoiser(loop, shape, {
      schedule,
      sample,
      kept,
      noise: { shape: latents, arrange: toPatches },
      passes: text.context.map((context) => ({ context, modulation })),
      predict: ({ modulation, ...inputs }, graph, { isSteered }) =>
        zImageTransformer(graph, config, weights, {
          ...inputs,
          grid,
          ranks: session.ranks,
          modulation: gather(modulation, inputs.step),
          control: isSteered && controlTable
            ? control?.residuals(controlTable, { ...inputs, grid })
            : undefined,
        }),
      guidance: shape.isLimited ? LIMITED_GUIDANCE : undefined,
      preview: images.preview,
    });

    // 4. Decode.
    const result = images.result(session, sample, shape);

    return async (work) => {
      const draw = noiseOf(work.request, latents);
      const drawn = start.draw(draw);
      await encoder?.run(work);
      await text.run(work);
      await control?.run(work);
      await work.run([begin.call(drawn)]);
      await denoiser.run(work, zImageGuidance(work.request, timesteps, prompts), draw, drawn);
      await result.run(work);
    };
  },
});
