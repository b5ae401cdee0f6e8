/**
 * Images with Krea 2: from text, from an input image by strength, with a mask, and after reference images.
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
  type TokenGrid,
} from "../../pipeline/latents.ts";
import { ofPrompt, PromptEncoder } from "../../pipeline/prompts.ts";
import { scaleLatents } from "../../pipeline/wan_coders.ts";
import { wanImageCodec, wanImages } from "../../pipeline/wan_image_coders.ts";
import { rearrange } from "../../rearrange.ts";
import { imageSchedule, imageSteps } from "../../schedulers/mod.ts";
import { DROPPED_TOKENS, PROMPT_END } from "../qwen_image/prompt.ts";
import { KREA2_PARTS, krea2Info, PATCH_SIDE } from "./config.ts";
import { beginningTokens, promptBeginning, referenceShapes, traceGiven } from "./given.ts";
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

  prompts(request, parts) {
    const beginning = promptBeginning(request, parts);
    return guidedPrompts(request, request.guidanceScale > 0).map((text) => beginning + text);
  },
  promptEnd: PROMPT_END,
  templateTokens: beginningTokens,

  shapeOf(request, parts, { lengths }, { sizeMultiple }) {
    const grid = gridOf(request, sizeMultiple);
    const startsFromImage = request.task === "TI2I";
    const references = referenceShapes(request, parts, sizeMultiple);
    const shape = {
      grid,
      references,
      startsFromImage,
      /** Tokens of every prompt; each has a pass of its own. */
      textTokens: lengths,
      ...imageSteps(request, startsFromImage),
    };
    const latents = [grid, ...references.grids].map((each) => latentSize(each, PATCH_SIDE));
    return { shape, latents };
  },

  trace(session, parts, shape) {
    const { transformer, vae, settings } = parts;
    const { grid, references, textTokens, tileSide } = shape;
    const { config, weights: { root: weights } } = transformer;
    const schedule = imageSchedule(parts.scheduler, tokenCount(grid), shape.steps, {
      ...shape,
      ...(settings.is_distilled && { mu: DISTILLED_MU }),
    });
    const size = { ...latentSize(grid, PATCH_SIDE), tileSide };
    const latents = [1, vae.config.z_dim, size.height, size.width];
    const patches = { y: grid.rows, i: PATCH_SIDE, j: PATCH_SIDE };
    const toPatches = (x: Tensor) => rearrange(x, "1 c (y i) (x j) -> 1 (y x) (c i j)", patches);
    const imagePatches = (x: Tensor, { rows }: Pick<TokenGrid, "rows"> = grid) =>
      rearrange(scaleLatents(vae, x), "1 (y i) (x j) c -> 1 (y x) (c i j)", {
        ...patches,
        y: rows,
      });
    const images = wanImages(
      parts,
      size,
      (x) => rearrange(x, "1 (y x) (c i j) -> (y i) (x j) c", patches),
    );

    // 1. Encode: the input image, the references; the prompts, by the text encoder and the transformer's own text blocks.
    const encoder = shape.startsFromImage
      ? new ImageEncoder(session, wanImageCodec(vae), [size])
      : undefined;
    const start = new StartImage(encoder?.moments[0], latents, (x) => imagePatches(x));
    const given = traceGiven(session, parts, { ...references, tileSide }, imagePatches);
    const [prompts, rows] = [textTokens.length, Math.max(...textTokens)];
    const text = new PromptEncoder(session, given.textEncoder, { prompts, rows }, {
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
        const times = [
          ...Array.from(timesteps, roundedTimestep),
          ...references.areClean ? [0] : [],
        ];
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
      passes: text.context.map((context) => ({ context, times, references: given.references })),
      predict: (inputs, graph) =>
        krea2Transformer(graph, config, weights, {
          ...inputs,
          grid,
          referenceGrids: references.grids,
          areReferencesClean: references.areClean,
          ranks: session.ranks,
        }),
      preview: images.preview,
    });

    // 4. Decode.
    const result = images.result(session, sample, shape);

    return async (work) => {
      const draw = noiseOf(work.request, latents);
      const drawn = start.draw(draw);
      await encoder?.run(work);
      await text.run(work, await given.run(work));
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
