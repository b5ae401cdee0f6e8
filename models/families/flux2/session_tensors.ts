/** What a session is made for, and the tensors that its programs share. */
import { Resident } from "../../../runtime/mod.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { scaleFactor } from "../../autoencoders/kl/config.ts";
import type { CommonShape } from "../family_pipeline.ts";
import { type Flux2Components, TEXT_LAYERS } from "./components.ts";
import { hiddenSize } from "./config.ts";
import { MODULATION_ROWS } from "./modulation.ts";
import { tokenCount, type TokenGrid } from "./positions.ts";

/** What the programs of a session depend on. */
export interface SessionShape extends CommonShape {
  /** Tokens of the result. */
  readonly grid: TokenGrid;
  /** Tokens of each given picture. */
  readonly references: readonly TokenGrid[];
  /** Rows of every prompt, pads included. */
  readonly textTokens: number;
  /** How many prompts there are, each with a pass of its own: 2 with guidance. */
  readonly passes: 1 | 2;
  /** Longest side of what the autoencoder takes at once, in latents. */
  readonly tileSide: number;
}

/** The inputs and results of a session's programs. */
export interface SessionTensors {
  /** Rows of the embedding table, f32 [passes, textTokens, hidden_size]. */
  readonly embeddings: Resident;
  /** u32 [passes]: prompt tokens. */
  readonly lengths: Resident;
  /** What the transformer sees of the text encoder, [passes, textTokens, joint_attention_dim]. */
  readonly states: Resident;
  /** Per pass, the same as tokens of the transformer, [1, textTokens, dim]. */
  readonly contexts: readonly Resident[];
  /** Per size of given pictures, one to encode, [height, width, 3]; see {@linkcode distinctGrids}. */
  readonly pixels: readonly Resident[];
  /** Per given picture, what the encoder gives for it, [1, height/s, width/s, 2·latent_channels]. */
  readonly moments: readonly Resident[];
  /** Tokens of all given pictures, [1, tokens, in_channels]; empty without any. */
  readonly references: readonly Resident[];
  /** Sinusoidal embeddings of all timesteps, [steps, timestep_guidance_channels]. */
  readonly timestepEmbeddings: Resident;
  /** Modulation of all timesteps, [steps, rows · dim]. */
  readonly modulation: Resident;
  /** u32 [1]: the step. */
  readonly step: Resident;
  /** Noise at first, the result at last, normalised: [1, in_channels, rows, columns]. */
  readonly latents: Resident;
  /** The same as tokens while it is denoised, [1, tokens, in_channels]. */
  readonly sample: Resident;
  /** Per pass, the velocity, of the shape of the sample. */
  readonly velocities: readonly Resident[];
  /** f32 [1 + passes]: weights of sample and velocities in what is shown of them. */
  readonly previewWeights: Resident;
  /** The sample without its noise, of its shape. */
  readonly preview: Resident;
  /** What the decoder takes, [height/s, width/s, latent_channels]. */
  readonly decoded: Resident;
}

/** Every size of given pictures once. */
export function distinctGrids({ references }: SessionShape): TokenGrid[] {
  return references.filter((grid, i) => i === indexOfGrid(references, grid));
}

/** Where a size is among others. */
export function indexOfGrid(grids: readonly TokenGrid[], grid: TokenGrid): number {
  return grids.findIndex(({ rows, columns }) => rows === grid.rows && columns === grid.columns);
}

/** Declares what {@linkcode SessionTensors} lists; a session allocates those that its programs use. */
export function declareTensors(
  { transformer, vae, textEncoder }: Flux2Components,
  shape: SessionShape,
  steps: number,
): SessionTensors {
  const { grid, references, textTokens, passes } = shape;
  const { in_channels: channels, timestep_guidance_channels } = transformer.config;
  const { latent_channels } = vae.config;
  const dim = hiddenSize(transformer.config);
  const hidden = textEncoder.config.hidden_size;
  const scale = scaleFactor(vae.config) * PACKED_SIDE;
  const tokens = [1, tokenCount(grid), channels];
  const each = <T>(make: (pass: number) => T) => Array.from({ length: passes }, (_, i) => make(i));
  const latentsOf = ({ rows, columns }: TokenGrid) => [rows * PACKED_SIDE, columns * PACKED_SIDE];
  const given = references.reduce((sum, reference) => sum + tokenCount(reference), 0);
  return {
    embeddings: new Resident("embeddings", [passes, textTokens, hidden]),
    lengths: new Resident("lengths", [passes], "u32"),
    states: new Resident("states", [passes, textTokens, hidden * TEXT_LAYERS.length]),
    contexts: each((i) => new Resident(`context${i}`, [1, textTokens, dim])),
    pixels: distinctGrids(shape).map(({ rows, columns }) =>
      new Resident("pixels", [rows * scale, columns * scale, 3])
    ),
    moments: references.map((reference, i) =>
      new Resident(`moments${i}`, [1, ...latentsOf(reference), 2 * latent_channels])
    ),
    references: given > 0 ? [new Resident("references", [1, given, channels])] : [],
    timestepEmbeddings: new Resident("timestep embeddings", [steps, timestep_guidance_channels]),
    modulation: new Resident("modulation", [steps, MODULATION_ROWS * dim]),
    step: new Resident("step", [1], "u32"),
    latents: new Resident("latents", [1, channels, grid.rows, grid.columns]),
    sample: new Resident("sample", tokens),
    velocities: each((i) => new Resident(`velocity${i}`, tokens)),
    previewWeights: new Resident("preview weights", [1 + passes]),
    preview: new Resident("preview", tokens),
    decoded: new Resident("decoded", [...latentsOf(grid), latent_channels]),
  };
}
