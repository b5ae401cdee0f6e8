/**
 * Images with Anima: from text, from an input image by strength, and with a mask.
 * Source: diffusers `AnimaModularPipeline`; masks as in `QwenImageInpaintPipeline`.
 */
import { elementwise, f32, type Tensor, u32 } from "../../../runtime/mod.ts";
import { timestepConstant, unitTimestep } from "../../blocks/embeddings.ts";
import { hiddenSize } from "../../config.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { classifierFree, guidedPrompts } from "../../pipeline/guidance.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { beginSample, gridOf, latentSize, noiseOf } from "../../pipeline/latents.ts";
import { ofPrompt, PromptEncoder, promptMasks } from "../../pipeline/prompts.ts";
import { posteriorMode } from "../../autoencoders/kl/posterior.ts";
import { scaleLatents } from "../../pipeline/wan_coders.ts";
import { wanImageCodec, wanImages } from "../../pipeline/wan_image_coders.ts";
import { rearrange } from "../../rearrange.ts";
import { imageSteps, linspace } from "../../schedulers/mod.ts";
import { qwenTextEncoder } from "../../text_encoders/qwen.ts";
import { animaConditioner, tokenEmbeddings } from "./conditioner.ts";
import { ANIMA_PARTS, animaInfo, PATCH_SIDE } from "./config.ts";
import { ANIMA_FILES, ANIMA_LORA } from "./layouts.ts";
import { animaTransformer, modulationTables } from "./transformer.ts";

export const ANIMA = defineFamily({
  classNames: ["AnimaModularPipeline"],
  files: ANIMA_FILES,
  parts: ANIMA_PARTS,
  lora: ANIMA_LORA,

  info: animaInfo,

  check({ width, height }, { transformer: { config } }, { sizeMultiple }) {
    const [, rows, columns] = config.max_size.map((side) => side / PATCH_SIDE * sizeMultiple);
    if (height <= rows! && width <= columns!) return;
    throw new RangeError(
      `Cannot make ${width}x${height}: the model has positions for ${columns}x${rows}; ask for a smaller size`,
    );
  },

  prompts: (request) => guidedPrompts(request),

  shapeOf(request, _, { lengths }, { sizeMultiple }) {
    const grid = gridOf(request, sizeMultiple);
    const startsFromImage = request.task === "TI2I";
    const shape = {
      grid,
      startsFromImage,
      /** Qwen3's tokens of every prompt; nothing is one token of zeros. */
      textTokens: lengths.map((length) => Math.max(1, length)),
      ...imageSteps(request, startsFromImage),
    };
    return { shape, latents: [latentSize(grid, PATCH_SIDE)] };
  },

  trace(session, parts, shape) {
    const { transformer, textEncoder, textEncoder2, tokenizer, pooledTokenizer, vae } = parts;
    const { grid, textTokens, tileSide, steps } = shape;
    const { config, weights: { root: weights } } = transformer;
    const sigmas = shape.sigmas ?? linspace(1, 1 / steps, steps);
    const schedule = parts.scheduler.setTimesteps(steps, { ...shape, sigmas });
    const size = { ...latentSize(grid, PATCH_SIDE), tileSide };
    const latents = [1, config.in_channels, size.height, size.width];
    const patches = { y: grid.rows, i: PATCH_SIDE, j: PATCH_SIDE };
    const toPatches = (x: Tensor) => rearrange(x, "1 c (y i) (x j) -> 1 (y x) (c i j)", patches);
    const imagePatches = (x: Tensor) =>
      rearrange(scaleLatents(vae, x), "1 (y i) (x j) c -> 1 (y x) (c i j)", patches);
    const images = wanImages(
      parts,
      size,
      (x) => rearrange(x, "1 (y x) (c i j) -> (y i) (x j) c", patches),
      (x) => rearrange(x, "1 (y x) (c i j) -> 1 c (y i) (x j)", patches),
    );

    // 1. Encode: the input image; the prompts, by the text encoder and the conditioner.
    const encoder = shape.startsFromImage
      ? new ImageEncoder(session, wanImageCodec(vae), [size])
      : undefined;
    const layers = [textEncoder.config.num_hidden_layers];
    const qwen3 = qwenTextEncoder(textEncoder, tokenizer.padId, layers);
    const [prompts, rows] = [textTokens.length, Math.max(...textTokens)];
    const t5Rows = textEncoder2.config.min_sequence_length;
    const text = new PromptEncoder(session, qwen3, { prompts, rows }, {
      pooled: tokenEmbeddings(textEncoder2, pooledTokenizer!.tokenizer.padId),
      pooledRows: t5Rows,
      inputs: {
        masks: f32(prompts, rows, 1),
        t5Masks: f32(prompts, t5Rows, 1),
        lengths: u32(prompts),
      },
      values: ({ tokens, pooledTokens }) => ({
        masks: promptMasks(tokens, rows),
        t5Masks: promptMasks(pooledTokens!, t5Rows),
        lengths: pooledTokens!.map(({ length }) => length),
      }),
      trace: ({ states, pooled, masks, t5Masks, lengths }, graph) =>
        textTokens.map((end, i) =>
          graph.scope(
            `prompt ${i}`,
            () =>
              animaConditioner(graph, textEncoder2.config, textEncoder2.weights.root, {
                states: elementwise("x * m", {
                  x: ofPrompt(states, i, [0, end]),
                  m: ofPrompt(masks, i, [0, end]),
                }),
                embeddings: ofPrompt(pooled!, i),
                length: ofPrompt(lengths, i),
                mask: ofPrompt(t5Masks, i),
              }),
          )
        ),
    });

    // 2. Noise, added to the input image's latents, as patches; modulation of all timesteps.
    const { timesteps } = schedule;
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      { noise: f32(...latents), moments: encoder?.moments[0] },
      ({ noise, moments }, graph) => {
        const times = Array.from(timesteps, unitTimestep);
        const embedded = timestepConstant(graph, times, hiddenSize(config));
        const image = moments && imagePatches(posteriorMode(moments));
        return {
          ...beginSample(toPatches(noise), image, { schedule, isMasked: shape.isMasked }),
          ...modulationTables(config, weights, embedded),
        };
      },
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, kept, ...tables } = begin.outputs;
    const loop = session.stage("denoise", { repeats: timesteps.length });
    const denoiser = traceDenoiser(loop, shape, {
      schedule,
      sample,
      kept,
      noise: { shape: latents, arrange: toPatches },
      passes: text.context.map((context) => ({ context, ...tables })),
      predict: (inputs, graph) => {
        const given = { ...inputs, grid, ranks: session.ranks };
        const predicted = animaTransformer(graph, config, weights, given);
        const { i, j } = patches;
        return rearrange(predicted, "1 n (i j c) -> 1 n (c i j)", { i, j });
      },
      preview: images.preview,
    });

    // 4. Decode.
    const result = images.result(session, sample, shape);

    return async (work) => {
      const draw = noiseOf(work.request, latents);
      const noise = draw();
      await encoder?.run(work);
      await text.run(work);
      await work.run([begin.call({ noise })]);
      const guidance = classifierFree(work.request.guidanceScale, prompts);
      await denoiser.run(work, guidance, draw, { noise });
      await result.run(work);
    };
  },
});
