/**
 * Videos and images with Wan: from text, from a first frame, after an input video, and images edited as a text says.
 *
 * Source: diffusers `WanPipeline`, `WanImageToVideoPipeline` (with `expand_timesteps`) and `WanVideoToVideoPipeline`.
 * An edit is a short video that goes on from the image, of which the last frame is kept, as ChronoEdit does it.
 */
import {
  concat,
  copyTo,
  elementCount,
  elementwise,
  f32,
  type Graph,
  permute,
  slice,
  type Tensor,
  writing,
} from "../../../runtime/mod.ts";
import { unscaleLatents, WanVideoDecoder, WanVideoEncoder } from "../../autoencoders/wan/coders.ts";
import { latentFrameCount } from "../../autoencoders/wan/latents.ts";
import { timestepEmbedding } from "../../embeddings.ts";
import { TorchGenerator } from "../../noise.ts";
import { INPUTS } from "../../pipeline/check_request.ts";
import { decodeResult } from "../../pipeline/decoding.ts";
import { Denoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { classifierFree, UNGUIDED } from "../../pipeline/guidance.ts";
import { PromptEncoder } from "../../pipeline/prompts.ts";
import { reusingSteps } from "../../pipeline/step_cache.ts";
import { cleanPrompt } from "../../prompt_cleaning.ts";
import { strengthStart } from "../../schedulers/mod.ts";
import { umt5TextEncoder } from "../../text_encoders/umt5.ts";
import { hiddenSize, WAN_PARTS, wanInfo, type WanTransformerConfig } from "./config.ts";
import { contextPadding, contextRows } from "./context.ts";
import { ORIGINAL_WAN, WAN_FILES } from "./layouts.ts";
import { modulationIndices, tableRows, timestepRows } from "./modulation.ts";
import { patchify, tokenCount, tokenGrid, unpatchify } from "./patches.ts";
import { wanContextStates, wanTransformer } from "./transformer.ts";

/** Modules of the transformer that prompts pass through before the first step. */
const CONTEXT_MODULES = /^condition_embedder\.text_embedder\.|\.attn2\.(to_k|to_v|norm_k)$/;

/** See the file comment. */
export const WAN = defineFamily({
  classNames: ["WanPipeline", "WanImageToVideoPipeline"],
  files: WAN_FILES,
  parts: WAN_PARTS,
  lora: { transformer: { family: "Wan", layouts: [ORIGINAL_WAN] }, textEncoder: "UMT5" },

  info: wanInfo,

  prompts: ({ prompt, negativePrompt, guidanceScale }) =>
    (guidanceScale > 1 ? [prompt, negativePrompt] : [prompt]).map(cleanPrompt),

  shapeOf(request, { vae }, { lengths, maxLength }) {
    const { task, width, height, numInferenceSteps: steps, strength } = request;
    const { scale_factor_spatial: spatial, scale_factor_temporal: temporal } = vae.config;
    // An edit takes the shortest video that has two latent frames.
    const frames = { T2I: 1, TI2I: 1 + temporal }[task as string] ?? request.numFrames;
    const shape = {
      frames: latentFrameCount(frames, temporal),
      height: height / spatial,
      width: width / spatial,
      prompts: lengths.length,
      contextTokens: contextRows(Math.max(...lengths), maxLength),
      source: INPUTS[task],
      steps,
      start: strength === undefined ? 0 : strengthStart(steps, strength, "steps"),
      shift: request.flowShift,
    };
    const latents = [shape.height, shape.width] as const;
    // Of 256 pixels, as in the reference.
    const smallestTile = 256 / spatial;
    if (lengths.length === 1) return { shape, latents, smallestTile, passes: ["single"] };
    const { guidancePasses = "batched" } = request;
    return {
      ...{ shape, latents, smallestTile },
      passes: guidancePasses === "batched" ? ["batched", "sequential"] : [guidancePasses],
    };
  },

  trace(session, { transformer, textEncoder, vae, scheduler }, shape) {
    const { frames, height, width, tileSide, prompts, source, operands, passes } = shape;
    const { config, weights: { root: weights } } = transformer;
    const { z_dim } = vae.config;
    const schedule = scheduler.setTimesteps(shape.steps, shape);
    const steps = schedule.timesteps.length;
    const size = { frames, height, width, tileSide };
    const latentShape = [1, z_dim, frames, height, width];
    const grid = tokenGrid(config, latentShape);
    const firstTokens = tokenCount({ ...grid, frames: 1 });

    // 1. Encode: the first frame, as patches that stay clean, or a video; the prompts, as keys and values.
    const encode = source === "text" ? undefined : session.stage("encode");
    const seenFrames = source === "image" ? 1 : frames;
    const encoder = encode && new WanVideoEncoder(encode, vae, { ...size, frames: seenFrames });
    const image = source === "image"
      ? encode!.program(
        "image",
        { latents: encoder!.latents },
        ({ latents }) => patchify(config, channelsFirst(latents.reshape(1, ...latents.shape))),
      )
      : undefined;
    const video = source === "video" ? encoder!.latents : undefined;
    const umt5 = umt5TextEncoder(textEncoder);
    const text = new PromptEncoder(session, umt5, prompts, shape.contextTokens);
    const perPass = passes === "batched" ? [2] : new Array<number>(prompts).fill(1);
    const context = session.stage("context", { phase: "denoise" }).program(
      "context",
      { states: text.states },
      ({ states }, graph) => {
        const blocks = wanContextStates(graph, config, weights, states);
        return perPass.map((count, pass) => {
          const part = (x: Tensor) => (x.dim(0) === count ? x : slice(x, 0, pass, pass + 1));
          return blocks.map(({ key, value }) => ({ key: part(key), value: part(value) }));
        });
      },
    );
    const lengths = perPass.map((count) => session.tensor("context lengths", [count], "u32"));
    const padLogits = perPass.map((count) => session.tensor("pad logits", [count]));

    // 2. Noise, added to an input video's latents, as patches; all timesteps. A given first frame is at timestep 0.
    const loop = session.stage("denoise", { repeats: steps });
    const times = source === "image" ? [...schedule.timesteps, 0] : [...schedule.timesteps];
    const begin = loop.program(
      "begin",
      {
        noise: f32(...latentShape),
        video,
        embeddings: f32(times.length, config.freq_dim),
      },
      ({ noise, video, embeddings }) => ({
        sample: noisyVideo(config, noise, video, schedule.sigmas[0]!),
        timesteps: timestepRows(weights, embeddings, hiddenSize(config)),
      }),
    );

    // 3. Denoise: the transformer for both prompts at once or one after the other, guidance, the solver.
    const { sample, timesteps } = begin.outputs;
    const step = session.tensor(
      "modulation indices",
      [tableRows(config.num_layers), source === "image" ? 2 : 1],
      "u32",
    );
    // Which timestep of a step each token has: those of a given first frame the first, 0.
    const tokenTimesteps = (graph: Graph) => {
      const rows = Uint32Array.from(
        { length: tokenCount(grid) },
        (_, i) => (i < firstTokens ? 0 : 1),
      );
      return graph.constant("token timesteps", [rows.length], "u32", rows);
    };
    const passPrograms = context.outputs.map((blocks, pass) =>
      loop.program(
        `pass ${pass}`,
        {
          ...{ sample, timesteps, step, blocks, firstFrame: image?.outputs },
          ...{ lengths: lengths[pass]!, padLogit: padLogits[pass]! },
        },
        ({ sample, firstFrame, timesteps, step, ...context }, graph) =>
          wanTransformer(graph, config, weights, {
            ...{ grid, timesteps, context },
            tokens: withFirstFrame(sample, firstFrame),
            modulationIndices: step,
            ...(firstFrame && { tokenTimesteps: tokenTimesteps(graph) }),
          }),
        { operands },
      )
    );
    const denoiser = new Denoiser(loop, {
      ...{ schedule, sample, passes: passPrograms, operands },
      preview: shape.hasPreviews
        ? {
          decoder: new WanVideoDecoder(loop, vae, { ...size, frames: 1 }, "preview"),
          // The first latent frame, or the one after a given first frame.
          part: (x) => {
            const frame = source === "image" && frames > 1 ? 1 : 0;
            return slice(x, 1, frame * firstTokens, (frame + 1) * firstTokens);
          },
          decoded: (part) => unscaleLatents(vae, unpatchify(config, part, { ...grid, frames: 1 })),
        }
        : undefined,
    });

    // 4. Decode, frame by frame.
    const last = session.stage("decode");
    const decoder = new WanVideoDecoder(last, vae, size);
    const finish = last.program(
      "finish",
      { sample, firstFrame: image?.outputs },
      ({ sample, firstFrame }) => {
        const latents = unpatchify(config, withFirstFrame(sample, firstFrame), grid);
        copyTo(unscaleLatents(vae, latents), decoder.input);
        return channelsFirst(latents);
      },
    );
    last.willRead(finish.outputs, decoder.results[0]!);

    return async (work) => {
      const { request, tokens, maxLength } = work;
      const noise = new TorchGenerator(request.seed).randn(elementCount(latentShape));
      work.beginEncoding(encoder?.count ?? 0);
      await encoder?.run(work, request.video ?? [request.images![0]!.data]);
      if (image) await work.run([image.call({})]);
      const padding = contextPadding(tokens, maxLength);
      const contextCalls = () => [
        context.call({}),
        ...perPass.flatMap((count, pass) => {
          const part = (values: readonly number[]) => values.slice(pass, pass + count);
          return [
            writing(lengths[pass]!, part(padding.lengths)),
            writing(padLogits[pass]!, part(padding.padLogits)),
          ];
        }),
      ];
      await text.run(work, { calls: contextCalls, modules: CONTEXT_MODULES });
      await work.run([
        begin.call({ noise, embeddings: timestepEmbedding(times, config.freq_dim) }),
      ]);
      await denoiser.run(work, {
        guidance: prompts === 1 ? UNGUIDED : classifierFree(request.guidanceScale),
        inputs: (i) => writing(step, modulationIndices(config, image ? [steps, i] : [i])),
        reused: request.quality === "high"
          ? reusingSteps([...schedule.timesteps], config.freq_dim)
          : [],
      });
      const keep = request.task === "TI2I" ? "last" : "all";
      await decodeResult(work, decoder, finish.call({}), finish.outputs, keep);
    };
  },
});

/** Noise as patches, an input video's latents under it. */
function noisyVideo(
  config: WanTransformerConfig,
  noise: Tensor,
  video: Tensor | undefined,
  level: number,
): Tensor {
  const patches = patchify(config, noise);
  if (!video) return patches;
  const x = patchify(config, channelsFirst(video.reshape(1, ...video.shape)));
  const sigma = noise.graph.constant("noise level", [1], "f32", [level]);
  return elementwise("(1.0 - sigma) * x + sigma * noise", { x, noise: patches, sigma });
}

/** The sample, with a given first frame in its place. */
function withFirstFrame(sample: Tensor, first: Tensor | undefined): Tensor {
  if (!first) return sample;
  const [given, all] = [first.dim(1), sample.dim(1)];
  return concat([first, ...given < all ? [slice(sample, 1, given, all)] : []], 1);
}

/** [1, frames, height, width, channels] as [1, channels, frames, height, width]. */
function channelsFirst(latents: Tensor): Tensor {
  return permute(latents, [0, 4, 1, 2, 3]);
}
