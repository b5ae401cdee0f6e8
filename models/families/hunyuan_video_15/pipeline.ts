/**
 * Videos with HunyuanVideo 1.5: from text, or from a first frame and text.
 * Source: diffusers `HunyuanVideo15Pipeline` and `HunyuanVideo15ImageToVideoPipeline`.
 */
import { f32, slice, type Tensor } from "../../../runtime/mod.ts";
import { ResultDecoder } from "../../pipeline/decoding.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { framesDecoder } from "../../pipeline/frames_decoder.ts";
import { classifierFree, guidedPrompts } from "../../pipeline/guidance.ts";
import { noiseOf } from "../../pipeline/latents.ts";
import { ofPrompt, PromptEncoder } from "../../pipeline/prompts.ts";
import { rearrange } from "../../rearrange.ts";
import { linspace, samplingOf } from "../../schedulers/mod.ts";
import { qwenTextEncoder } from "../../text_encoders/qwen.ts";
import { t5TextEncoder } from "../../text_encoders/t5.ts";
import { hunyuanVideo15Codec, unscaleLatents } from "./codec.ts";
import { HUNYUAN_VIDEO_15_PARTS, hunyuanVideo15Info, IMAGE_CLASS } from "./config.ts";
import { glyphTokens as glyphsOf, promptStates } from "./context.ts";
import { traceGiven } from "./given.ts";
import { HUNYUAN_VIDEO_15_FILES, HUNYUAN_VIDEO_15_LORA } from "./layouts.ts";
import { modulationTables } from "./modulation.ts";
import { DROPPED_TOKENS, glyphTokens, videoPrompts } from "./prompt.ts";
import { hunyuanVideo15Transformer } from "./transformer.ts";

/** The text encoder's last layers, whose states are not taken. */
const SKIPPED_LAYERS = 2;

export const HUNYUAN_VIDEO_15 = defineFamily({
  classNames: ["HunyuanVideo15Pipeline", IMAGE_CLASS],
  files: HUNYUAN_VIDEO_15_FILES,
  parts: HUNYUAN_VIDEO_15_PARTS,
  lora: HUNYUAN_VIDEO_15_LORA,

  info: hunyuanVideo15Info,

  prompts: (request) => guidedPrompts(request),
  templateTokens: () => DROPPED_TOKENS,
  chunkedPrompts: (prompts, _, parts, maxLength) =>
    videoPrompts(prompts, {
      tokenizer: parts.tokenizer,
      glyphTokenizer: parts.pooledTokenizer!.tokenizer,
    }, maxLength),

  shapeOf(request, parts, { lengths }, { sizeMultiple }) {
    const { width, height, numFrames, numInferenceSteps: steps } = request;
    const temporal = parts.vae.config.temporal_compression_ratio;
    const { tokenizer } = parts.pooledTokenizer!;
    const shape = {
      frames: Math.floor((numFrames - 1) / temporal) + 1,
      height: height / sizeMultiple,
      width: width / sizeMultiple,
      steps,
      /** Tokens of every prompt, those before it among them, and of what is in quotes in it. */
      textTokens: lengths,
      glyphTokens: guidedPrompts(request).map((prompt) => glyphTokens(prompt, tokenizer).length),
      beginsWithImage: request.task === "I2V",
      ...samplingOf(request),
    };
    // Of 256 pixels, as in the reference.
    return { shape, latents: [shape], smallestTile: 256 / sizeMultiple };
  },

  trace(session, parts, shape) {
    const { transformer, textEncoder, textEncoder2, vae, tinyDecoder, tokenizer, pooledTokenizer } =
      parts;
    const { frames, height, width, steps, textTokens, glyphTokens } = shape;
    const { config, weights: { root: weights } } = transformer;
    const sigmas = shape.sigmas ?? linspace(1, 1 / steps, steps);
    const schedule = parts.scheduler.setTimesteps(steps, { ...shape, sigmas });
    const codec = hunyuanVideo15Codec(vae);
    const grid = { frames, height, width };
    const latents = [1, codec.latentChannels, frames, height, width];
    const toTokens = (x: Tensor) => rearrange(x, "1 c f y x -> 1 (f y x) c");

    // 1. Encode: the first frame, by the autoencoder and the image encoder; the prompts, and what is in quotes in them.
    const given = traceGiven(session, parts, codec, shape);
    const layers = [textEncoder.config.num_hidden_layers - SKIPPED_LAYERS];
    const qwen = qwenTextEncoder(textEncoder, tokenizer.padId, layers);
    const glyphRows = Math.max(...glyphTokens);
    const { padId } = pooledTokenizer!.tokenizer;
    const [prompts, rows] = [textTokens.length, Math.max(...textTokens)];
    const text = new PromptEncoder(session, qwen, { prompts, rows }, {
      ...glyphRows > 0 && {
        pooled: t5TextEncoder(textEncoder2, padId, { seesPadding: false }),
        pooledRows: glyphRows,
      },
      trace: ({ states, pooled }) =>
        textTokens.map((end, i) => {
          const first = Math.min(DROPPED_TOKENS, end - 1);
          const glyphs = glyphTokens[i]!;
          return {
            ...promptStates(config, weights, ofPrompt(states, i, [first, end])),
            glyphs: pooled && glyphs > 0
              ? glyphsOf(config, weights, ofPrompt(pooled, i, [0, glyphs]))
              : undefined,
          };
        }),
    });

    // 2. Noise, as tokens; modulation of all timesteps.
    const { timesteps } = schedule;
    const targets = config.use_meanflow && shape.beginsWithImage
      ? [...timesteps.slice(1), 0]
      : undefined;
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      { noise: f32(...latents) },
      ({ noise }, graph) => ({
        sample: toTokens(noise),
        ...modulationTables(graph, config, weights, timesteps, targets),
      }),
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, ...tables } = begin.outputs;
    const toVideo = (x: Tensor) =>
      rearrange(x, "1 (f y x) c -> f y x c", { f: x.dim(1) / (height * width), y: height });
    const framesBy = (tiny: typeof tinyDecoder, frames: number) => {
      const size = { ...grid, frames, tileSide: shape.tileSide };
      return framesDecoder(tiny, codec, size, (x) => unscaleLatents(vae, x));
    };
    const shown = framesBy(tinyDecoder, 1);
    const loop = session.stage("denoise", { repeats: timesteps.length });
    const denoiser = traceDenoiser(loop, shape, {
      schedule,
      sample,
      noise: { shape: latents, arrange: toTokens },
      passes: text.context.map((context) => ({ ...context, ...given.tokens, ...tables })),
      predict: ({ glyphs, image, beside, ...inputs }, graph) =>
        hunyuanVideo15Transformer(graph, config, weights, {
          ...inputs,
          others: [image, glyphs].filter((tokens) => tokens !== undefined),
          given: beside,
          grid,
          ranks: session.ranks,
        }),
      preview: {
        decoder: shown.decoder,
        part: (x) => slice(x, 1, 0, height * width),
        decoded: (x) => shown.scaled(toVideo(x)),
      },
    });

    // 4. Decode, frame by frame.
    const { decoder, scaled } = framesBy(shape.isTinyDecoded ? tinyDecoder : undefined, frames);
    const result = new ResultDecoder(session, { sample }, decoder, (last) => ({
      decoded: scaled(toVideo(last.sample)),
      latents: rearrange(toVideo(last.sample), "f y x c -> 1 c f y x"),
    }));

    return async (work) => {
      const draw = noiseOf(work.request, latents);
      const noise = draw();
      await given.run(work);
      await text.run(work);
      await work.run([begin.call({ noise })]);
      const guidance = classifierFree(work.request.guidanceScale, prompts);
      await denoiser.run(work, guidance, draw, { noise });
      await result.run(work);
    };
  },
});
