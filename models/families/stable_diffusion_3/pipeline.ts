/**
 * Images with Stable Diffusion 3 and 3.5: from text, from an input image by strength, with a mask, and with ControlNets.
 * Source: diffusers `StableDiffusion3Pipeline`, `StableDiffusion3Img2ImgPipeline`, `StableDiffusion3InpaintPipeline`,
 * `StableDiffusion3ControlNetPipeline`, `StableDiffusion3ControlNetInpaintingPipeline`.
 */
import { f32, type Tensor } from "../../../runtime/mod.ts";
import { scaleLatents } from "../../autoencoders/kl/posterior.ts";
import { timestepConstant } from "../../blocks/embeddings.ts";
import { chunkRows } from "../../pipeline/chunked_prompts.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import {
  classifierFree,
  guidedPrompts,
  skipLayersOf,
  withSkippedLayers,
} from "../../pipeline/guidance.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { isInpainting } from "../../pipeline/inpainting.ts";
import { klCodec, klImages } from "../../pipeline/kl_coders.ts";
import {
  beginSample,
  gridOf,
  latentSize,
  noiseOf,
  StartImage,
  tokenCount,
} from "../../pipeline/latents.ts";
import { rearrange } from "../../rearrange.ts";
import { imageSteps } from "../../schedulers/mod.ts";
import { checkSd3Request, controlsByMask, PATCH_SIDE, SD3_PARTS, sd3Info } from "./config.ts";
import { traceControlBranch } from "./control.ts";
import { SD3_FILES, SD3_LORA } from "./layouts.ts";
import { modulationTables, TIMESTEP_CHANNELS } from "./modulation.ts";
import { sd3Prompts, traceText } from "./text.ts";
import { sd3Transformer } from "./transformer.ts";

export const STABLE_DIFFUSION_3 = defineFamily({
  classNames: [
    "StableDiffusion3Pipeline",
    "StableDiffusion3Img2ImgPipeline",
    "StableDiffusion3InpaintPipeline",
    "StableDiffusion3ControlNetPipeline",
    "StableDiffusion3ControlNetInpaintingPipeline",
  ],
  files: SD3_FILES,
  parts: SD3_PARTS,
  lora: SD3_LORA,
  info: sd3Info,
  check: checkSd3Request,
  prompts: (request) => guidedPrompts(request),
  chunkedPrompts: sd3Prompts,

  shapeOf(request, parts, { lengths, maxLength }, { sizeMultiple }) {
    const { promptSyntax: syntax = "plain", clipSkip = 0 } = request;
    const grid = gridOf(request, sizeMultiple);
    const places = parts.textEncoder.config.max_position_embeddings;
    // Nothing is left of an image in noise alone, and the ControlNet shows what is kept of it.
    const isSeen = controlsByMask(parts) && isInpainting(request);
    const startsFromImage = request.task === "TI2I" && !(isSeen && request.strength === 1);
    const shape = {
      grid,
      startsFromImage,
      prompts: lengths.length,
      clipRows: syntax === "plain" ? places : chunkRows(lengths, places),
      t5Rows: maxLength,
      clipSkip,
      syntax,
      skipped: lengths.length > 1 ? skipLayersOf(request)?.layers : undefined,
      ...imageSteps(request, startsFromImage),
    };
    return { shape, latents: [latentSize(grid, PATCH_SIDE)] };
  },

  trace(session, parts, shape) {
    const { transformer, vae, scheduler, controlnet } = parts;
    const { grid, prompts, tileSide, skipped } = shape;
    const { config, weights: { root: weights } } = transformer;
    const mu = scheduler.mu(tokenCount(grid));
    const schedule = scheduler.setTimesteps(shape.steps, { ...shape, mu });
    const size = { ...latentSize(grid, PATCH_SIDE), tileSide };
    const latents = [1, config.in_channels, size.height, size.width];
    const patches = { y: grid.rows, i: PATCH_SIDE, j: PATCH_SIDE };
    const toPatches = (x: Tensor) => rearrange(x, "1 c (y i) (x j) -> 1 (y x) (i j c)", patches);
    const fromPatches = (x: Tensor) => rearrange(x, "1 (y x) (i j c) -> 1 (y i) (x j) c", patches);
    const images = klImages(parts, size, fromPatches);

    // 1. Encode: the input image; the prompts by all encoders.
    const encoder = shape.startsFromImage
      ? new ImageEncoder(session, klCodec(vae), [size])
      : undefined;
    const start = new StartImage(
      encoder?.moments[0],
      latents,
      (x) => rearrange(scaleLatents(vae.config, x), "1 (y i) (x j) c -> 1 (y x) (i j c)", patches),
    );
    const control = controlnet && shape.control
      ? traceControlBranch(session, parts, controlnet, { size, steps: schedule.timesteps.length })
      : undefined;
    const text = traceText(session, parts, shape, control?.context);

    // 2. Noise, added to the input image's latents, as patches; modulation of all timesteps.
    const { timesteps } = schedule;
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      {
        noise: f32(...latents),
        ...start.inputs,
        pooled: text.context.map(({ pooled }) => pooled),
      },
      ({ noise, pooled, ...image }, graph) => {
        const embedded = timestepConstant(graph, timesteps, TIMESTEP_CHANNELS);
        return {
          ...beginSample(toPatches(noise), start.trace(image), {
            schedule,
            isMasked: shape.isMasked && !controlsByMask(parts),
          }),
          tables: pooled.map((vector) => modulationTables(config, weights, embedded, vector)),
          controlTables: control && pooled.map((vector) => control.tables(embedded, vector)),
        };
      },
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, tables, controlTables, kept } = begin.outputs;
    const passes = text.context.map(({ context }, i) => ({ context, ...tables[i]! }));
    const loop = session.stage("denoise", { repeats: timesteps.length });
    const denoiser = traceDenoiser(loop, shape, {
      schedule,
      sample,
      kept,
      noise: { shape: latents, arrange: toPatches },
      // A pass without some layers is one more of the prompt's own.
      passes: skipped ? [...passes, passes[0]!] : passes,
      predict(inputs, graph, { pass, isSteered }) {
        const prompt = pass === prompts ? 0 : pass;
        return sd3Transformer(graph, config, weights, {
          ...inputs,
          grid,
          ranks: session.ranks,
          skipped: pass === prompts ? skipped : undefined,
          control: isSteered
            ? control?.residuals(
              text.context[prompt]!.controlContext,
              controlTables![prompt]!,
              { ...inputs, grid },
            )
            : undefined,
        });
      },
      preview: images.preview,
    });

    // 4. Decode.
    const result = images.result(session, sample, shape);

    return async (work) => {
      const { request } = work;
      const draw = noiseOf(request, latents);
      const drawn = start.draw(draw);
      await encoder?.run(work);
      await control?.run(work);
      await text.run(work, `${shape.syntax} ${shape.clipSkip}`);
      await work.run([begin.call(drawn)]);
      const plain = classifierFree(request.guidanceScale, prompts);
      const skipping = skipped && skipLayersOf(request);
      const steps = timesteps.length;
      const guidance = skipping
        ? withSkippedLayers(plain, skipping, [skipping.start * steps, skipping.stop * steps])
        : plain;
      await denoiser.run(work, guidance, draw, drawn);
      await result.run(work);
    };
  },
});
