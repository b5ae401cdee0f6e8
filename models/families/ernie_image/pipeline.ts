/**
 * Images with ERNIE-Image: from text, from an input image by strength, and with a mask.
 * Source: diffusers `ErnieImagePipeline`; input images are encoded as in `Flux2KleinInpaintPipeline`.
 */
import { f32 } from "../../../runtime/mod.ts";
import { normaliseTokens, PACKED_SIDE, packLatents } from "../../autoencoders/kl/packing.ts";
import { posteriorMode } from "../../autoencoders/kl/posterior.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { classifierFree, guidedPrompts } from "../../pipeline/guidance.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { klCodec } from "../../pipeline/kl_coders.ts";
import { beginSample, gridOf, gridTokens, latentSize, noiseOf } from "../../pipeline/latents.ts";
import { packedDecoder, tokenResult } from "../../pipeline/packed_coders.ts";
import { ofPrompt, PromptEncoder } from "../../pipeline/prompts.ts";
import { imageSteps, linspace } from "../../schedulers/mod.ts";
import { qwenTextEncoder } from "../../text_encoders/qwen.ts";
import { BATCH_NORM_EPS, ERNIE_IMAGE_PARTS, ernieImageInfo } from "./config.ts";
import { ERNIE_IMAGE_FILES } from "./layouts.ts";
import { ernieImageContext, ernieImageTransformer, timestepTable } from "./transformer.ts";

export const ERNIE_IMAGE = defineFamily({
  classNames: ["ErnieImagePipeline"],
  files: ERNIE_IMAGE_FILES,
  parts: ERNIE_IMAGE_PARTS,
  lora: { transformer: { family: "ERNIE-Image", layouts: [] }, textEncoder: "Ministral 3" },

  info: ernieImageInfo,

  prompts: (request) => guidedPrompts(request),

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
    return { shape, latents: [latentSize(grid, PACKED_SIDE)] };
  },

  trace(session, { transformer, textEncoder, tokenizer, vae, scheduler }, shape) {
    const { grid, steps, textTokens, tileSide } = shape;
    const { config, weights: { root: weights } } = transformer;
    const sigmas = shape.sigmas ?? linspace(1, 1 / steps, steps);
    const schedule = scheduler.setTimesteps(steps, { ...shape, sigmas });
    const size = { ...latentSize(grid, PACKED_SIDE), tileSide };
    const latents = [1, config.in_channels, grid.rows, grid.columns];
    const statistics = { ...vae.config, batch_norm_eps: BATCH_NORM_EPS };

    // 1. Encode: the input image; the prompts.
    const encoder = shape.startsFromImage
      ? new ImageEncoder(session, klCodec(vae), [size])
      : undefined;
    const layer = textEncoder.config.num_hidden_layers - 1;
    const ministral = qwenTextEncoder(textEncoder, tokenizer.padId, [layer]);
    const [prompts, rows] = [textTokens.length, Math.max(...textTokens)];
    const text = new PromptEncoder(session, ministral, { prompts, rows }, {
      trace: ({ states }) =>
        textTokens.map((end, i) =>
          ernieImageContext(config, weights, ofPrompt(states, i, [0, end]))
        ),
    });

    // 2. Noise, added to the input image's latents, as tokens; all timesteps, embedded.
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      { noise: f32(...latents), moments: encoder?.moments[0] },
      ({ noise, moments }, graph) => {
        const image = moments &&
          normaliseTokens(statistics, vae.weights.root, packLatents(posteriorMode(moments)));
        return {
          ...beginSample(gridTokens(noise), image, { schedule, isMasked: shape.isMasked }),
          times: timestepTable(graph, config, weights, schedule.timesteps),
        };
      },
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, kept, times } = begin.outputs;
    const preview = packedDecoder({ ...vae, config: statistics }, size, grid.rows);
    const loop = session.stage("denoise", { repeats: schedule.timesteps.length });
    const denoiser = traceDenoiser(loop, shape, {
      schedule,
      sample,
      kept,
      noise: { shape: latents, arrange: gridTokens },
      passes: text.context.map((context) => ({ context, times })),
      predict: (inputs, graph) =>
        ernieImageTransformer(graph, config, weights, { ...inputs, grid, ranks: session.ranks }),
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
      await denoiser.run(work, classifierFree(guidanceScale, prompts), draw, { noise });
      await result.run(work);
    };
  },
});
