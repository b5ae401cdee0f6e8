/** What a session is made for, and the tensors that its programs share. */
import { Resident } from "../../../runtime/mod.ts";
import type { CommonShape } from "../family_pipeline.ts";
import type { WanComponents } from "./components.ts";
import { tableRows, TIMESTEP_ROWS } from "./modulation.ts";
import { patchFeatures, tokenCount, type TokenGrid } from "./patches.ts";

/** What the programs of a session depend on. */
export interface SessionShape extends CommonShape {
  readonly latentFrames: number;
  /** Sides of the latents. */
  readonly height: number;
  readonly width: number;
  /** Rows of the prompt tensors: the longest prompt, a pad row, rounded up. */
  readonly contextTokens: number;
  /** `none`: one pass; `batched`: both prompts in one pass; `sequential`: two passes of half the memory. */
  readonly guidance: "none" | "batched" | "sequential";
  /** What is given beside the text: a picture, whose latent frame stays clean, or a clip, which noise is added to. */
  readonly source: "text" | "picture" | "clip";
}

/** The inputs and results of a session's programs. */
export interface SessionTensors {
  /** Embedded prompt tokens, f32 [batch, contextTokens, d_model]. */
  readonly embeddings: Resident;
  /** u32 [batch]: prompt tokens. */
  readonly lengths: Resident;
  /** f32 [batch, contextTokens, 1]: 1 for prompt tokens, 0 for pads. */
  readonly mask: Resident;
  /** The text encoder's states, zero where there is no token, f32 [batch, contextTokens, text_dim]. */
  readonly text: Resident;
  /** Per pass, u32 [prompts]: prompt tokens and the one row that stands for all pads. */
  readonly contextLengths: readonly Resident[];
  /** Per pass, f32 [prompts]. */
  readonly padLogits: readonly Resident[];
  /** Sinusoidal embeddings of all distinct timesteps, [timesteps, freq_dim]: with a given frame those of 0 last. */
  readonly timestepEmbeddings: Resident;
  /** What `timestepRows()` makes of them. */
  readonly timesteps: Resident;
  /** u32 [table rows, timesteps of a step]: which of `timesteps` the step has. */
  readonly modulationIndices: Resident;
  /** Noise at first, the result at last, normalised: [1, channels, frames, height, width]. */
  readonly latents: Resident;
  /** The same as patches while it is denoised, [1, tokens, features]. */
  readonly sample: Resident;
  /** Per pass, the velocities for its prompts, [prompts, tokens, features]. */
  readonly velocities: readonly Resident[];
  /** Patches of the first latent frame of image-to-video, [1, tokens, features]. */
  readonly firstFrame: Resident;
  /** Latents frame by frame, [frames, height, width, channels]: of a given clip normalised, for the decoder not. */
  readonly frameLatents: Resident;
  /** u32 [1]: the latent frame to decode. */
  readonly frameIndex: Resident;
  /** Decoded pixels of the first chunk and of later ones, [1, frames, height·s, width·s, 3]. */
  readonly firstPixels: Resident;
  readonly nextPixels: Resident;
  /** A picture to encode, or the first frame of a clip, [1, 1, height·s, width·s, 3]. */
  readonly picture: Resident;
  /** Later frames of a clip to encode, one chunk, [1, frames, height·s, width·s, 3]. */
  readonly chunk: Resident;
  /** Which latent frame a chunk becomes, [frames, 1, 1, 1]: 1 there, 0 elsewhere. */
  readonly frameMask: Resident;
  /** f32 [1 + velocities]: weights of sample and velocities in what is shown of them. */
  readonly previewWeights: Resident;
  /** One latent frame of the sample without its noise, as patches, [1, tokens, features]. */
  readonly preview: Resident;
}

/** Declares what {@linkcode SessionTensors} lists; a session allocates those that its programs use. */
export function declareTensors(
  { textEncoder, transformer, vae }: WanComponents,
  shape: SessionShape,
  grid: TokenGrid,
  steps: number,
): SessionTensors {
  const { latentFrames, height, width, contextTokens, source } = shape;
  const { config } = transformer;
  const batch = shape.guidance === "none" ? 1 : 2;
  const passes = promptsPerPass(shape);
  const { scale_factor_spatial: spatial, scale_factor_temporal: temporal, z_dim } = vae.config;
  const dim = config.num_attention_heads * config.attention_head_dim;
  const features = patchFeatures(config, z_dim);
  const frameTokens = tokenCount({ ...grid, frames: 1 });
  const timesteps = source === "picture" ? steps + 1 : steps;
  const pixels = (frames: number) => [1, frames, height * spatial, width * spatial, 3];
  return {
    embeddings: new Resident("embeddings", [batch, contextTokens, textEncoder.config.d_model]),
    lengths: new Resident("lengths", [batch], "u32"),
    mask: new Resident("mask", [batch, contextTokens, 1]),
    text: new Resident("text", [batch, contextTokens, textEncoder.config.d_model]),
    contextLengths: passes.map((prompts) => new Resident("context lengths", [prompts], "u32")),
    padLogits: passes.map((prompts) => new Resident("pad logits", [prompts])),
    timestepEmbeddings: new Resident("timestep embeddings", [timesteps, config.freq_dim]),
    timesteps: new Resident("timesteps", [timesteps * TIMESTEP_ROWS, dim]),
    modulationIndices: new Resident(
      "modulation indices",
      [tableRows(config.num_layers), source === "picture" ? 2 : 1],
      "u32",
    ),
    latents: new Resident("latents", [1, z_dim, latentFrames, height, width]),
    sample: new Resident("sample", [1, tokenCount(grid), features]),
    velocities: passes.map((prompts) =>
      new Resident("velocity", [prompts, tokenCount(grid), features])
    ),
    firstFrame: new Resident("first frame", [1, frameTokens, features]),
    frameLatents: new Resident("frame latents", [latentFrames, height, width, z_dim]),
    frameIndex: new Resident("frame index", [1], "u32"),
    firstPixels: new Resident("first pixels", pixels(1)),
    nextPixels: new Resident("next pixels", pixels(temporal)),
    picture: new Resident("picture", pixels(1)),
    chunk: new Resident("chunk", pixels(temporal)),
    frameMask: new Resident("frame mask", [latentFrames, 1, 1, 1]),
    previewWeights: new Resident("preview weights", [1 + batch]),
    preview: new Resident("preview", [1, frameTokens, features]),
  };
}

/** How many prompts each pass of the transformer sees. */
export function promptsPerPass({ guidance }: SessionShape): number[] {
  return { none: [1], batched: [2], sequential: [1, 1] }[guidance];
}
