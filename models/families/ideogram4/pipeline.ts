/**
 * Images with Ideogram 4: from text, from an input image by strength, and with a mask.
 * Source: diffusers `Ideogram4Pipeline`; input images are encoded as in `Flux2KleinInpaintPipeline`.
 */
import { f32, type Tensor } from "../../../runtime/mod.ts";
import { denormaliseTokens, normaliseTokens, PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { posteriorMode } from "../../autoencoders/kl/posterior.ts";
import { tiledDecoder } from "../../autoencoders/tiled_coder.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { klCodec } from "../../pipeline/kl_coders.ts";
import { beginSample, gridOf, latentSize, noiseOf, tokenCount } from "../../pipeline/latents.ts";
import { tokenResult } from "../../pipeline/packed_coders.ts";
import { PromptEncoder } from "../../pipeline/prompts.ts";
import { rearrange } from "../../rearrange.ts";
import { imageSteps } from "../../schedulers/mod.ts";
import { qwenTextEncoder } from "../../text_encoders/qwen.ts";
import { qwen3ChatPrompt } from "../../tokenizers/mod.ts";
import { IDEOGRAM4_PARTS, ideogram4Info, TEXT_LAYERS } from "./config.ts";
import { IDEOGRAM4_FILES } from "./layouts.ts";
import { ORIGINAL_IDEOGRAM4 } from "./names.ts";
import { guidanceAt, logitNormalSigmas } from "./schedule.ts";
import { ideogram4Context, ideogram4Transformer, timestepTable } from "./transformer.ts";

export const IDEOGRAM4 = defineFamily({
  classNames: ["Ideogram4Pipeline"],
  files: IDEOGRAM4_FILES,
  parts: IDEOGRAM4_PARTS,
  lora: {
    transformer: { family: "Ideogram 4", layouts: [ORIGINAL_IDEOGRAM4], isFirstAlone: true },
    textEncoder: "Qwen3-VL",
  },

  info: ideogram4Info,

  prompts: ({ prompt }) => [qwen3ChatPrompt(prompt, { hasThinkBlock: false })],

  shapeOf(request, _, { lengths }, { sizeMultiple }) {
    const grid = gridOf(request, sizeMultiple);
    const startsFromImage = request.task === "TI2I";
    const shape = {
      grid,
      pixels: request.width * request.height,
      startsFromImage,
      rows: lengths[0]!,
      isGuided: request.guidanceScale > 1,
      ...imageSteps(request, startsFromImage),
    };
    return { shape, latents: [latentSize(grid, PACKED_SIDE)] };
  },

  trace(session, { transformer, transformer2, textEncoder, tokenizer, vae, scheduler }, shape) {
    const { grid, pixels, steps, rows, tileSide, isMasked } = shape;
    const nets = shape.isGuided ? [transformer, transformer2!] : [transformer];
    const { config, weights: { root: weights } } = transformer;
    const sigmas = shape.sigmas ?? logitNormalSigmas(steps, pixels);
    const schedule = scheduler.setTimesteps(steps, { ...shape, sigmas });
    const size = { ...latentSize(grid, PACKED_SIDE), tileSide };
    const latents = [1, tokenCount(grid), config.in_channels];
    const sides = { y: grid.rows, i: PACKED_SIDE, j: PACKED_SIDE };

    // 1. Encode: the input image; the prompt.
    const encoder = shape.startsFromImage
      ? new ImageEncoder(session, klCodec(vae), [size])
      : undefined;
    const qwen3 = qwenTextEncoder(textEncoder, tokenizer.padId, TEXT_LAYERS, { isRaw: true });
    const text = new PromptEncoder(session, qwen3, { prompts: 1, rows }, {
      trace: ({ states }, graph) =>
        ideogram4Context(graph, config, weights, states, TEXT_LAYERS.length),
    });

    // 2. Noise, added to the input image's latents, as tokens; all timesteps, embedded by both transformers.
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      { noise: f32(...latents), moments: encoder?.moments[0] },
      ({ noise, moments }, graph) => {
        const packed = moments &&
          rearrange(posteriorMode(moments), "1 (y i) (x j) c -> 1 (y x) (i j c)", sides);
        const image = packed && normaliseTokens(vae.config, vae.weights.root, packed);
        return {
          ...beginSample(noise, image, { schedule, isMasked }),
          times: nets.map(({ config, weights }) =>
            timestepTable(graph, config, weights.root, schedule.timesteps)
          ),
        };
      },
    );

    // 3. Denoise: a pass of each transformer, guidance, the solver.
    const { sample, kept, times } = begin.outputs;
    const preview = {
      decoder: tiledDecoder(klCodec(vae), size),
      decoded: (tokens: Tensor) =>
        rearrange(
          denormaliseTokens(vae.config, vae.weights.root, tokens),
          "1 (y x) (i j c) -> 1 (y i) (x j) c",
          sides,
        ),
    };
    const loop = session.stage("denoise", { repeats: schedule.timesteps.length });
    const denoiser = traceDenoiser(loop, shape, {
      schedule,
      sample,
      kept,
      noise: {
        shape: latents,
        arrange: (noise) => noise,
        mask: {
          shape: [1, 1, grid.rows, grid.columns],
          arrange: (mask) => rearrange(mask, "1 1 y x -> 1 (y x) 1"),
        },
      },
      passes: times.map((times, i) => ({ times, context: i === 0 ? text.context : undefined })),
      predict: (inputs, graph, { pass }) => {
        const { config, weights } = nets[pass]!;
        const own = { ...inputs, grid, ranks: session.ranks };
        return ideogram4Transformer(graph, config, weights.root, own);
      },
      preview,
    });

    // 4. Decode.
    const result = tokenResult(session, sample, preview, grid.rows);

    return async (work) => {
      const { guidanceScale } = work.request;
      const draw = noiseOf(work.request, latents);
      const noise = draw();
      await encoder?.run(work);
      await text.run(work);
      await work.run([begin.call({ noise })]);
      // The transformers give the velocity with the other sign.
      const weights = (i: number) => {
        const scale = guidanceAt(guidanceScale, i, schedule.timesteps.length);
        return shape.isGuided ? [-scale, scale - 1] : [-1];
      };
      await denoiser.run(work, { weights }, draw, { noise });
      await result.run(work);
    };
  },
});
