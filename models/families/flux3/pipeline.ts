/**
 * Images with FLUX.3 Image klein: from text, and from input images as a text says; a mask may keep a part of the first.
 * Source: diffusers `Flux3ModularPipeline` and `Flux3DistilledModularPipeline`; masks as in `Flux2KleinInpaintPipeline`.
 */
import { f32, gather, slice } from "../../../runtime/mod.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { classifierFree, guidedPrompts } from "../../pipeline/guidance.ts";
import {
  beginSample,
  gridOf,
  gridTokens,
  latentSize,
  noiseOf,
  tokenCount,
  type TokenGrid,
} from "../../pipeline/latents.ts";
import { packedDecoder, packedImages, tokenResult } from "../../pipeline/packed_coders.ts";
import { ofPrompt, PromptEncoder } from "../../pipeline/prompts.ts";
import { imageSteps, linspace } from "../../schedulers/mod.ts";
import { qwenTextEncoder } from "../../text_encoders/qwen.ts";
import { qwen3ChatPrompt } from "../../tokenizers/mod.ts";
import { FLUX3_PARTS, flux3Info, textLayers } from "./config.ts";
import { FLUX3_FILES, ORIGINAL_FLUX3 } from "./layouts.ts";
import { modesOf, modulationTable } from "./modulation.ts";
import { flux3Context, flux3Transformer } from "./transformer.ts";

/** Prompts are filled up to a multiple of so many tokens, and what fills them up is seen. */
const WINDOW = 80;
/** The place in the text of all that fills a prompt up, as the text encoder sees it. */
const PAD_POSITION = 1;

export const FLUX3 = defineFamily({
  classNames: ["Flux3ModularPipeline", "Flux3DistilledModularPipeline"],
  files: FLUX3_FILES,
  parts: FLUX3_PARTS,
  lora: { transformer: { family: "FLUX.3", layouts: [ORIGINAL_FLUX3] }, textEncoder: "Qwen3-VL" },

  info: flux3Info,

  // Distilled models make their images without guidance, whatever is asked for.
  prompts: (request, { transformer }) =>
    guidedPrompts(request, request.guidanceScale > 1 && !transformer.config.flow_map)
      .map((text) => qwen3ChatPrompt(text, { hasThinkBlock: false })),

  shapeOf({ images = [], ...request }, _, { lengths, maxLength }, { sizeMultiple }) {
    const grid = gridOf(request, sizeMultiple);
    const references = images.map((image) => gridOf(image, sizeMultiple));
    return {
      shape: {
        grid,
        references,
        /** Tokens of every prompt as the transformer sees it; each has a pass of its own. */
        textTokens: lengths.map((length) =>
          Math.min(Math.ceil(length / WINDOW) * WINDOW, maxLength)
        ),
        ...imageSteps(request, true),
      },
      latents: [grid, ...references].map((each) => latentSize(each, PACKED_SIDE)),
    };
  },

  trace(session, { transformer, textEncoder, vae, tokenizer, scheduler }, shape) {
    const { grid, references, textTokens, steps, tileSide, isMasked } = shape;
    const { config, weights: { root: weights } } = transformer;
    const sigmas = shape.sigmas ?? linspace(1, 1 / steps, steps);
    const schedule = scheduler.setTimesteps(steps, { ...shape, sigmas });
    const sizeOf = (grid: TokenGrid) => ({ ...latentSize(grid, PACKED_SIDE), tileSide });
    const latents = [1, config.in_channels, grid.rows, grid.columns];

    // 1. Encode: the input images, as tokens one after the other; the prompts.
    const given = packedImages(session, vae, references.map(sizeOf));
    const layers = textLayers(config.joint_attention_dim, textEncoder.config.hidden_size);
    const options = { isRaw: true, padPosition: PAD_POSITION };
    const qwen3 = qwenTextEncoder(textEncoder, tokenizer.padId, layers, options);
    const [prompts, rows] = [textTokens.length, Math.max(...textTokens)];
    const text = new PromptEncoder(session, qwen3, { prompts, rows }, {
      trace: ({ states }) =>
        textTokens.map((end, i) => flux3Context(config, weights, ofPrompt(states, i, [0, end]))),
    });

    // 2. Noise, as tokens; modulation of all timesteps.
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      { noise: f32(...latents), images: isMasked ? given.tokens : undefined },
      ({ noise, images }, graph) => {
        // The image that is kept in part comes first, and is seen like the others.
        const image = images && slice(images, 1, 0, tokenCount(grid));
        const modes = modesOf(references.length > 0);
        return {
          ...beginSample(gridTokens(noise), image, { schedule, isMasked }),
          modulation: modulationTable(graph, config, weights, schedule, modes),
        };
      },
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, modulation, kept } = begin.outputs;
    const preview = packedDecoder(vae, sizeOf(grid), grid.rows);
    const loop = session.stage("denoise", { repeats: schedule.timesteps.length });
    const denoiser = traceDenoiser(loop, shape, {
      schedule,
      sample,
      kept,
      noise: { shape: latents, arrange: gridTokens },
      passes: text.context.map((context) => ({ context, modulation, references: given.tokens })),
      predict: ({ modulation, step, ...inputs }, graph) =>
        flux3Transformer(graph, config, weights, {
          ...inputs,
          grid,
          referenceGrids: references,
          ranks: session.ranks,
          modulation: gather(modulation, step),
        }),
      preview,
    });

    // 4. Decode.
    const result = tokenResult(session, sample, preview, grid.rows);

    return async (work) => {
      const { guidanceScale } = work.request;
      const draw = noiseOf(work.request, latents);
      const noise = draw();
      await given.run(work);
      await text.run(work);
      await work.run([begin.call({ noise })]);
      await denoiser.run(work, classifierFree(guidanceScale, prompts), draw, { noise });
      await result.run(work);
    };
  },
});
