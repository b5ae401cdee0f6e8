/**
 * Images with Qwen-Image-2.1: from text, from references as a text says, with a mask, and by strength without a vision tower.
 * Source: diffusers `QwenImage21Pipeline`; images and masks as in `QwenImageImg2ImgPipeline` and `QwenImageInpaintPipeline`.
 */
import { f32, type Tensor } from "../../../runtime/mod.ts";
import { roundedTimestep } from "../../blocks/embeddings.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { classifierFree, guidedPrompts } from "../../pipeline/guidance.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { isInpainting } from "../../pipeline/inpainting.ts";
import {
  beginSample,
  gridOf,
  gridTokens,
  latentSize,
  noiseOf,
  StartImage,
  tokenCount,
} from "../../pipeline/latents.ts";
import { withAlpha } from "../../pipeline/pixels.ts";
import { ofPrompt, PromptEncoder } from "../../pipeline/prompts.ts";
import { scaleLatents } from "../../pipeline/wan_coders.ts";
import { wanImageCodec, wanImages } from "../../pipeline/wan_image_coders.ts";
import { rearrange } from "../../rearrange.ts";
import { imageSchedule, imageSteps } from "../../schedulers/mod.ts";
import { PROMPT_END } from "../qwen_image/prompt.ts";
import { guidanceOf } from "../qwen_image/sampling.ts";
import { QWEN_IMAGE_21_PARTS, qwenImage21Info, seesImages } from "./config.ts";
import { referenceGrids, shownTokens, traceGiven } from "./given.ts";
import { QWEN_IMAGE_21_FILES } from "./layouts.ts";
import { droppedTokens, qwenImage21Prompt, textsBefore } from "./prompt.ts";
import {
  placeAfter,
  qwenImage21Context,
  qwenImage21Transformer,
  timestepTable,
} from "./transformer.ts";

export const QWEN_IMAGE_21 = defineFamily({
  classNames: ["QwenImage21Pipeline"],
  files: QWEN_IMAGE_21_FILES,
  parts: QWEN_IMAGE_21_PARTS,
  lora: { transformer: { family: "Qwen-Image-2.1", layouts: [] }, textEncoder: "Qwen3-VL" },

  info: qwenImage21Info,

  prompts(request, parts) {
    const shown = referenceGrids(request, parts).map(shownTokens);
    return guidedPrompts(request, guidanceOf(request) > 1)
      .map((text) => qwenImage21Prompt(text, shown));
  },
  promptEnd: PROMPT_END,
  templateTokens(request, parts) {
    const grids = referenceGrids(request, parts);
    return [...textsBefore(parts.tokenizer, grids.length), ...grids.map(shownTokens)]
      .reduce((sum, tokens) => sum + tokens, droppedTokens(parts.tokenizer));
  },

  shapeOf(request, parts, { lengths }) {
    const grid = gridOf(request, parts.vae.config.scale_factor_spatial);
    const startsFromImage = request.task === "TI2I" &&
      (!seesImages(parts) || isInpainting(request));
    const references = referenceGrids(request, parts);
    const shape = {
      grid,
      references,
      startsFromImage,
      /** Tokens of every prompt; each has a pass of its own. */
      textTokens: lengths,
      ...imageSteps(request, startsFromImage),
    };
    return { shape, latents: [grid, ...references].map((each) => latentSize(each, 1)) };
  },

  trace(session, parts, shape) {
    const { transformer, tokenizer, vae, settings } = parts;
    const { grid, references, steps, tileSide } = shape;
    const { config, weights: { root: weights } } = transformer;
    const own = settings.sample_sigmas ?? undefined;
    const schedule = imageSchedule(parts.scheduler, tokenCount(grid), steps, {
      ...shape,
      sigmas: shape.sigmas ?? (own?.length === steps ? own : undefined),
    });
    const size = { ...latentSize(grid, 1), tileSide };
    const latents = [1, vae.config.z_dim, size.height, size.width];
    const imageTokens = (x: Tensor) => rearrange(scaleLatents(vae, x), "1 y x c -> 1 (y x) c");
    const rows = { y: grid.rows };
    const images = wanImages(parts, size, (x) => rearrange(x, "1 (y x) c -> y x c", rows));

    // 1. Encode: the image to start from, the references; the prompts, by the text encoder and all blocks of the transformer.
    const encoder = shape.startsFromImage
      ? new ImageEncoder(session, wanImageCodec(vae), [size])
      : undefined;
    const start = new StartImage(encoder?.moments[0], latents, imageTokens);
    const given = traceGiven(session, parts, references, tileSide);
    const [prompts, most] = [shape.textTokens.length, Math.max(...shape.textTokens)];
    const dropped = droppedTokens(tokenizer);
    const texts = textsBefore(tokenizer, references.length);
    // Where each prompt goes on after the references, and the place that it has there.
    let [first, place] = [dropped, 0];
    const shown = references.map((grid, i) => {
      const text = [first, first + texts[i]!] as const;
      first = text[1] + shownTokens(grid);
      place = placeAfter(placeAfter(place, texts[i]!), grid);
      return { text, grid };
    });
    const text = new PromptEncoder(session, given.textEncoder, { prompts, rows: most }, {
      inputs: { references: given.references },
      trace({ states, references }, graph) {
        const contextOf = (name: string, ...own: Parameters<typeof qwenImage21Context>) =>
          graph.scope(name, () => qwenImage21Context(...own));
        const model = [graph, config, weights] as const;
        const segments = shown.flatMap(({ text, grid }, i) => [
          { tokens: ofPrompt(states, 0, text) },
          { tokens: references[i]!, grid },
        ]);
        // What stands before the prompts is the same in all.
        const before = segments.length > 0
          ? [contextOf("references", ...model, { segments }, session.ranks)]
          : [];
        return {
          before,
          prompts: shape.textTokens.map((end, i) => {
            const segments = [{ tokens: ofPrompt(states, i, [first, end]) }];
            return contextOf(`prompt ${i}`, ...model, { segments, place, before }, session.ranks);
          }),
        };
      },
    });

    // 2. Noise, added to the input image's latents, as tokens; all timesteps, embedded.
    const { timesteps } = schedule;
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      { noise: f32(...latents), ...start.inputs },
      ({ noise, ...image }, graph) => {
        const times = Array.from(timesteps, roundedTimestep);
        return {
          ...beginSample(gridTokens(noise), start.trace(image), {
            schedule,
            isMasked: shape.isMasked,
          }),
          times: timestepTable(graph, config, weights, times),
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
      noise: { shape: latents, arrange: gridTokens },
      passes: text.context.prompts.map((context) => ({
        context,
        before: text.context.before[0],
        times,
      })),
      predict: ({ context, before, ...inputs }, graph, { pass }) =>
        qwenImage21Transformer(graph, config, weights, {
          ...inputs,
          context: before ? [before, context] : [context],
          place: place + shape.textTokens[pass]! - first,
          grid,
          ranks: session.ranks,
        }),
      preview: images.preview,
    });

    // 4. Decode.
    const result = images.result(session, sample, { isTinyDecoded: false });

    return async (work) => {
      const draw = noiseOf(work.request, latents);
      const drawn = start.draw(draw);
      await encoder?.run(work, work.request.images!.slice(0, 1).map(withAlpha));
      await text.run(work, await given.run(work));
      await work.run([begin.call(drawn)]);
      await denoiser.run(work, classifierFree(guidanceOf(work.request), prompts), draw, drawn);
      await result.run(work);
    };
  },
});
