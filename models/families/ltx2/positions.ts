/**
 * Where tokens are: time in seconds, row and column in pixels, as shares of the largest; computed on the CPU. Source: diffusers
 * `LTX2AudioVideoRotaryPosEmbed` and `LTX2RotaryPosEmbed1d`, which take powers in double precision and the rest in single.
 */
import type { RotaryTables } from "../../blocks/embeddings.ts";
import { type Ltx2TransformerConfig, streamOf } from "./config.ts";

const { fround } = Math;

/** Latents of a video. */
export interface VideoGrid {
  readonly frames: number;
  readonly rows: number;
  readonly columns: number;
}

export function videoTokens({ frames, rows, columns }: VideoGrid): number {
  return frames * rows * columns;
}

/** One whose sides are `scale` times shorter. */
export function smallerGrid({ frames, rows, columns }: VideoGrid, scale: number): VideoGrid {
  return { frames, rows: rows / scale, columns: columns / scale };
}

/** Middle of a latent frame, in seconds. */
function frameTime(
  { vae_scale_factors: [temporal], causal_offset: offset }: Ltx2TransformerConfig,
  frame: number,
  fps: number,
): number {
  // The first frame of a video is a latent frame of its own.
  const edge = (index: number) =>
    fround(Math.max(index * temporal + offset - temporal, 0) / fround(fps));
  return fround(fround(edge(frame) + edge(frame + 1)) / 2);
}

/** Middle of the frame of an image that has tokens of its own, in seconds. */
function imageTime(frame: number, fps: number): number {
  const edge = (frame: number) => fround(frame / fround(fps));
  return fround(fround(edge(frame) + edge(frame + 1)) / 2);
}

/** Middle of a latent of the sound, in seconds. */
function soundTime(config: Ltx2TransformerConfig, index: number): number {
  const { audio_scale_factor: scale, causal_offset: offset } = config;
  const edge = (at: number) =>
    fround(
      fround(Math.max(at * scale + offset - scale, 0) * config.audio_hop_length) /
        config.audio_sampling_rate,
    );
  return fround(fround(edge(index) + edge(index + 1)) / 2);
}

/** Tables of positions, [tokens, dim / 2] each; `axes` are shares of the largest positions, one list of tokens for each axis. */
export function positionTables(
  axes: readonly ArrayLike<number>[],
  dim: number,
  theta: number,
): RotaryTables {
  const tokens = axes[0]!.length;
  const pairs = dim / 2;
  const steps = Math.floor(dim / (2 * axes.length));
  const before = pairs - axes.length * steps;
  const frequencies = Float32Array.from(
    { length: steps },
    (_, j) => (theta ** (steps === 1 ? 0 : j / (steps - 1))) * Math.PI / 2,
  );
  const [cos, sin] = [new Float32Array(tokens * pairs).fill(1), new Float32Array(tokens * pairs)];
  axes.forEach((positions, axis) => {
    // Few positions differ along an axis.
    const known = new Map<number, RotaryTables>();
    for (let token = 0; token < tokens; token++) {
      const position = positions[token]!;
      let turns = known.get(position);
      if (!turns) known.set(position, turns = turnsOf(position, frequencies));
      let at = token * pairs + before + axis;
      for (let j = 0; j < steps; j++, at += axes.length) {
        cos[at] = turns.cos[j]!;
        sin[at] = turns.sin[j]!;
      }
    }
  });
  return { cos, sin };
}

function turnsOf(position: number, frequencies: Float32Array): RotaryTables {
  const scaled = fround(fround(fround(position) * 2) - 1);
  const angles = frequencies.map((frequency) => scaled * frequency);
  return { cos: angles.map(Math.cos), sin: angles.map(Math.sin) };
}

/** Of a prompt's tokens in its connector. */
export function textPositions(
  tokens: number,
  dim: number,
  base: number,
  theta: number,
): RotaryTables {
  const places = Float32Array.from({ length: tokens }, (_, place) => place / base);
  return positionTables([places], dim, theta);
}

/** By what attends: tokens of the video and of the sound to their own kind, and to each other by the time alone. */
export const POSITIONS = ["video", "audio", "videoCross", "audioCross"] as const;

export type Ltx2Positions<Table> = Readonly<Record<typeof POSITIONS[number], Table>>;

/** Where tokens are that follow those of a video: of images for frames, and of a video whose sides are `scale` times shorter. */
export interface FurtherTokens {
  readonly keys: readonly { readonly frame: number }[];
  readonly control?: { readonly scale: number } | undefined;
}

export function ltx2Positions(
  config: Ltx2TransformerConfig,
  grid: VideoGrid,
  sound: number,
  fps: number,
  { keys, control }: FurtherTokens = { keys: [] },
): Ltx2Positions<RotaryTables> {
  const { vae_scale_factors: [, down, right], base_height, base_width, rope_theta } = config;
  const { pos_embed_max_pos: seconds, audio_pos_embed_max_pos: soundSeconds } = config;
  const crossSeconds = Math.max(seconds, soundSeconds);
  const [times, rows, columns]: [number[], number[], number[]] = [[], [], []];
  const addFrame = (time: number, scale = 1) => {
    const { rows: height, columns: width } = smallerGrid(grid, scale);
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        times.push(time);
        rows.push((y + 0.5) * down * scale / base_height);
        columns.push((x + 0.5) * right * scale / base_width);
      }
    }
  };
  const addVideo = (scale?: number) => {
    for (let i = 0; i < grid.frames; i++) addFrame(frameTime(config, i, fps), scale);
  };
  addVideo();
  for (const { frame } of keys) addFrame(imageTime(frame, fps));
  if (control) addVideo(control.scale);
  const soundTimes = Float32Array.from({ length: sound }, (_, i) => soundTime(config, i));
  const share = (values: ArrayLike<number>, most: number) =>
    Float32Array.from(values, (value) => value / most);
  const [video, audio] = [streamOf(config, "video").dim, streamOf(config, "audio").dim];
  const cross = config.audio_cross_attention_dim;
  const places = [rows, columns].map((values) => Float32Array.from(values));
  return {
    video: positionTables([share(times, seconds), ...places], video, rope_theta),
    audio: positionTables([share(soundTimes, soundSeconds)], audio, rope_theta),
    videoCross: positionTables([share(times, crossSeconds)], cross, rope_theta),
    audioCross: positionTables([share(soundTimes, crossSeconds)], cross, rope_theta),
  };
}
