/** What a session is made for, and the tensors that its programs share. */
import { Resident } from "../../../runtime/mod.ts";
import { scaleFactor } from "../../autoencoders/kl/config.ts";
import type { CommonShape } from "../family_pipeline.ts";
import type { ZImageComponents } from "./components.ts";
import { PATCH_SIDE, patchFeatures } from "./config.ts";
import { modulationRows, TIMESTEP_FREQUENCIES } from "./modulation.ts";
import { tokenCount, type TokenGrid } from "./positions.ts";

/** What the programs of a session depend on. */
export interface SessionShape extends CommonShape {
  /** Tokens of the picture. */
  readonly grid: TokenGrid;
  /** Tokens of every prompt, filled up by `paddedCount()`; each has a pass of its own. */
  readonly textTokens: readonly number[];
  /** Whether the picture is one that is given, with noise added. */
  readonly startsFromPicture: boolean;
  /** Whether guidance must not make the velocity longer. */
  readonly limitsGuidance: boolean;
  /** Longest side of what the autoencoder takes at once, in latents. */
  readonly tileSide: number;
}

/** The inputs and results of a session's programs. */
export interface SessionTensors {
  /** Rows of the embedding table, f32 [passes, most text tokens, hidden_size]. */
  readonly embeddings: Resident;
  /** u32 [passes]: prompt tokens. */
  readonly lengths: Resident;
  /** Per pass, the text encoder's states, [1, text tokens, hidden_size]. */
  readonly states: readonly Resident[];
  /** Per pass, f32 [1, text tokens, 1]: 1 for prompt tokens, 0 for those that fill them up. */
  readonly masks: readonly Resident[];
  /** Per pass, what the layers take of the prompt, [1, text tokens, dim]. */
  readonly contexts: readonly Resident[];
  /** A given picture, [height, width, 3]. */
  readonly pixels: Resident;
  /** What the encoder gives for it, [1, height/s, width/s, 2·channels]. */
  readonly moments: Resident;
  /** Standard normal, by which its latents are drawn, [1, channels, height/s, width/s]. */
  readonly momentNoise: Resident;
  /** f32 [1]: noise level at which a given picture begins. */
  readonly sigma: Resident;
  /** Sinusoidal embeddings of all timesteps, [steps, frequencies]. */
  readonly timestepEmbeddings: Resident;
  /** Modulation of all timesteps, [steps, rows · dim]. */
  readonly modulation: Resident;
  /** u32 [1]: the step. */
  readonly step: Resident;
  /** Noise at first, the result at last, normalised: [1, channels, height/s, width/s]. */
  readonly latents: Resident;
  /** The same as patches while it is denoised, [1, tokens, features]. */
  readonly sample: Resident;
  /** Per pass, what the transformer gives, of the shape of the sample. */
  readonly outputs: readonly Resident[];
  /** f32 [1, 1, 2]: guidance scale, and how long the guided output may be against that of the prompt. */
  readonly guidance: Resident;
  /** The guided output where its length is limited, of the shape of the sample. */
  readonly guided: Resident;
  /** f32 [1 + outputs]: weights of sample and outputs in what is shown of them. */
  readonly previewWeights: Resident;
  /** The sample without its noise, of its shape. */
  readonly preview: Resident;
  /** What the decoder takes, [height/s, width/s, channels]. */
  readonly decoded: Resident;
}

/** Declares what {@linkcode SessionTensors} lists; a session allocates those that its programs use. */
export function declareTensors(
  { transformer: { config }, vae, textEncoder }: ZImageComponents,
  { grid, textTokens }: SessionShape,
  steps: number,
): SessionTensors {
  const { dim, in_channels: channels } = config;
  const hidden = textEncoder.config.hidden_size;
  const scale = scaleFactor(vae.config);
  const passes = textTokens.length;
  const [height, width] = [grid.rows * PATCH_SIDE, grid.columns * PATCH_SIDE];
  const tokens = [1, tokenCount(grid), patchFeatures(config)];
  const perPass = (name: string, shape: (tokens: number) => number[]) =>
    textTokens.map((tokens, i) => new Resident(`${name}${i}`, shape(tokens)));
  return {
    embeddings: new Resident("embeddings", [passes, Math.max(...textTokens), hidden]),
    lengths: new Resident("lengths", [passes], "u32"),
    states: perPass("states", (tokens) => [1, tokens, hidden]),
    masks: perPass("mask", (tokens) => [1, tokens, 1]),
    contexts: perPass("context", (tokens) => [1, tokens, dim]),
    pixels: new Resident("pixels", [height * scale, width * scale, 3]),
    moments: new Resident("moments", [1, height, width, 2 * channels]),
    momentNoise: new Resident("moment noise", [1, channels, height, width]),
    sigma: new Resident("sigma", [1]),
    timestepEmbeddings: new Resident("timestep embeddings", [steps, TIMESTEP_FREQUENCIES]),
    modulation: new Resident("modulation", [steps, modulationRows(config) * dim]),
    step: new Resident("step", [1], "u32"),
    latents: new Resident("latents", [1, channels, height, width]),
    sample: new Resident("sample", tokens),
    outputs: perPass("output", () => tokens),
    guidance: new Resident("guidance", [1, 1, 2]),
    guided: new Resident("guided", tokens),
    previewWeights: new Resident("preview weights", [1 + passes]),
    preview: new Resident("preview", tokens),
    decoded: new Resident("decoded", [height, width, channels]),
  };
}
