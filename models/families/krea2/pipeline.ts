/**
 * Images with Krea 2: from text, from an input image by strength, and with a mask.
 * Source: diffusers `Krea2Pipeline`; images and masks as in `QwenImageImg2ImgPipeline` and `QwenImageInpaintPipeline`.
 */
import { f32, type Tensor } from "../../../runtime/mod.ts";
import { roundedTimestep, timestepConstant } from "../../blocks/embeddings.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { type Guidance, guidedPrompts } from "../../pipeline/guidance.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import {
  beginSample,
  gridOf,
  latentSize,
  noiseOf,
  StartImage,
  tokenCount,
} from "../../pipeline/latents.ts";
import { ofPrompt, PromptEncoder } from "../../pipeline/prompts.ts";
import { scaleLatents } from "../../pipeline/wan_coders.ts";
import { wanImageCodec, wanImages } from "../../pipeline/wan_image_coders.ts";
import { rearrange } from "../../rearrange.ts";
import { imageSchedule, imageSteps } from "../../schedulers/mod.ts";
import { qwenTextEncoder } from "../../text_encoders/qwen.ts";
import { DESCRIBE_BEGINNING, DROPPED_TOKENS, PROMPT_END } from "../qwen_image/prompt.ts";
import { KREA2_PARTS, krea2Info, PATCH_SIDE } from "./config.ts";
import { KREA2_FILES, ORIGINAL_KREA2 } from "./layouts.ts";
import { krea2Context, krea2Transformer, timestepTable } from "./transformer.ts";

/** The shift of models that were distilled to few steps, whatever the size. */
const DISTILLED_MU = 1.15;

export const KREA2 = defineFamily({
  classNames: ["Krea2Pipeline"],
  files: KREA2_FILES,
  parts: KREA2_PARTS,
  lora: { transformer: { family: "Krea 2", layouts: [ORIGINAL_KREA2] }, textEncoder: "Qwen3-VL" },

  info: krea2Info,

  prompts: (request) =>
    guidedPrompts(request, request.guidanceScale > 0).map((text) => DESCRIBE_BEGINNING + text),
  promptEnd: PROMPT_END,
  templateTokens: () => DROPPED_TOKENS.describe,

  shapeOf(request, _, { lengths }, { sizeMultiple }) {
    const grid = gridOf(request, sizeMultiple);
    const startsFromImage = request.task === "TI2I";
    const shape = {
      grid,
      startsFromImage,
      /** Tokens of every prompt; each has a pass of its own. */
      textTokens: lengths,
      ...imageSteps(request, startsFromImage),
    };
    return { shape, latents: [latentSize(grid, PATCH_SIDE)] };
  },

  trace(session, parts, shape) {
    const { transformer, textEncoder, tokenizer, vae, settings } = parts;
    const { grid, textTokens, tileSide } = shape;
    const { config, weights: { root: weights } } = transformer;
    const schedule = imageSchedule(parts.scheduler, tokenCount(grid), shape.steps, {
      ...shape,
      ...(settings.is_distilled && { mu: DISTILLED_MU }),
    });
    const size = { ...latentSize(grid, PATCH_SIDE), tileSide };
    const latents = [1, vae.config.z_dim, size.height, size.width];
    const patches = { y: grid.rows, i: PATCH_SIDE, j: PATCH_SIDE };
    const toPatches = (x: Tensor) => rearrange(x, "1 c (y i) (x j) -> 1 (y x) (c i j)", patches);
    const imagePatches = (x: Tensor) =>
      rearrange(scaleLatents(vae, x), "1 (y i) (x j) c -> 1 (y x) (c i j)", patches);
    const images = wanImages(
      parts,
      size,
      (x) => rearrange(x, "1 (y x) (c i j) -> (y i) (x j) c", patches),
    );

    // 1. Encode: the input image; the prompts, by the text encoder and the transformer's own text blocks.
    const encoder = shape.startsFromImage
      ? new ImageEncoder(session, wanImageCodec(vae), [size])
      : undefined;
    const start = new StartImage(encoder?.moments[0], latents, imagePatches);
    const layers = settings.text_encoder_select_layers;
    const qwen3 = qwenTextEncoder(textEncoder, tokenizer.padId, layers);
    const [prompts, rows] = [textTokens.length, Math.max(...textTokens)];
    const text = new PromptEncoder(session, qwen3, { prompts, rows }, {
      trace: ({ states }, graph) =>
        textTokens.map((end, i) => {
          const own = ofPrompt(states, i, [DROPPED_TOKENS.describe, end]);
          return graph.scope(`prompt ${i}`, () => krea2Context(graph, config, weights, own));
        }),
    });

    // 2. Noise, added to the input image's latents, as patches; all timesteps, embedded.
    const { timesteps } = schedule;
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      { noise: f32(...latents), ...start.inputs },
      ({ noise, ...image }, graph) => {
        const times = Array.from(timesteps, roundedTimestep);
        const embedded = timestepConstant(graph, times, config.timestep_embed_dim);
        return {
          ...beginSample(toPatches(noise), start.trace(image), {
            schedule,
            isMasked: shape.isMasked,
          }),
          times: timestepTable(config, weights, embedded),
        };
      },
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
        krea2Transformer(graph, config, weights, { ...inputs, grid, ranks: session.ranks }),
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
      await denoiser.run(work, krea2Guidance(work.request.guidanceScale, prompts), draw, drawn);
      await result.run(work);
    };
  },
});

/** p + scale · (p − n). */
function krea2Guidance(scale: number, prompts: number): Guidance {
  return { weights: () => (prompts === 1 ? [1] : [1 + scale, -scale]) };
}
