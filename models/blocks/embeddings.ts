/** Sinusoidal tables, made on the CPU: sines of large arguments differ between drivers. */
import type { Graph, Rotation, Tensor } from "../../runtime/mod.ts";

/**
 * Sinusoidal embedding, [timesteps, dim], cosines first, with f_i = exp(−ln(10000)·i/h), h = dim/2, in f32.
 * Source: diffusers `get_timestep_embedding` with `flip_sin_to_cos=True`, `downscale_freq_shift=0`.
 */
export function timestepEmbedding(
  timesteps: readonly number[],
  dim: number,
  scale = 1,
): Float32Array<ArrayBuffer> {
  const half = dim / 2;
  const result = new Float32Array(timesteps.length * dim);
  timesteps.forEach((timestep, row) => {
    for (let i = 0; i < half; i++) {
      const exponent = Math.fround(Math.fround(-Math.fround(Math.log(10000)) * i) / half);
      const turns = Math.fround(Math.fround(timestep) * Math.fround(Math.exp(exponent)));
      const angle = Math.fround(scale * turns);
      result[row * dim + i] = Math.cos(angle);
      result[row * dim + half + i] = Math.sin(angle);
    }
  });
  return result;
}

export function timestepConstant(
  graph: Graph,
  timesteps: ArrayLike<number>,
  dim: number,
  scale = 1,
): Tensor {
  const values = () => timestepEmbedding(Array.from(timesteps), dim, scale);
  return graph.constant("timesteps", [timesteps.length, dim], "f32", values);
}

/** A scheduler's timestep as transformers take it, 0 to 1 in f32. */
export function unitTimestep(timestep: number): number {
  return Math.fround(timestep / 1000);
}

/** A scheduler's timestep, there and back through [0, 1] in f32. */
export function roundedTimestep(timestep: number): number {
  return Math.fround(unitTimestep(timestep) * 1000);
}

/** Cosines and sines of rotary position embeddings, each [tokens, headDim/2]. */
export interface RotaryTables {
  readonly cos: Float32Array<ArrayBuffer>;
  readonly sin: Float32Array<ArrayBuffer>;
}

/**
 * Rotary tables; the pairs of a head are shared out between axes in order, which may have a `theta` each; `replaced` is a
 * pair that turns otherwise.
 * Source: RoFormer (Su et al. 2021) with one block of frequencies `theta^(−2j/d)` per axis.
 */
export function rotaryTables(
  positions: readonly (readonly number[])[],
  axisDims: readonly number[],
  theta: number | readonly number[],
  replaced?: { readonly axis: number; readonly pair: number; readonly frequency: number },
): RotaryTables {
  const pairs = axisDims.reduce((sum, dim) => sum + dim / 2, 0);
  const cos = new Float32Array(positions.length * pairs);
  const sin = new Float32Array(positions.length * pairs);
  positions.forEach((position, token) => {
    let at = token * pairs;
    axisDims.forEach((dim, axis) => {
      const base = typeof theta === "number" ? theta : theta[axis]!;
      for (let j = 0; j < dim / 2; j++, at++) {
        const isReplaced = axis === replaced?.axis && j === replaced.pair;
        const angle = position[axis]! * (isReplaced ? replaced.frequency : base ** (-2 * j / dim));
        cos[at] = Math.cos(angle);
        sin[at] = Math.sin(angle);
      }
    });
  });
  return { cos, sin };
}

/** Tables of angles, one row of them after the other, as constants, [tokens, pairs]. */
export function angleConstants(
  graph: Graph,
  name: string,
  pairs: number,
  angles: readonly number[],
): Rotation {
  const shape = [angles.length / pairs, pairs];
  return {
    cos: graph.constant(`${name}_cos`, shape, "f32", Float32Array.from(angles, Math.cos)),
    sin: graph.constant(`${name}_sin`, shape, "f32", Float32Array.from(angles, Math.sin)),
  };
}

/** Of a model that knows so many positions along each axis. */
export function rotaryConstantsWithin(
  lengths: readonly number[],
  ...[graph, name, positions, axisDims, theta]: Parameters<typeof rotaryConstants>
): Rotation {
  const outside = positions.find((token) => token.some((place, axis) => place >= lengths[axis]!));
  if (outside) {
    throw new RangeError(
      `Cannot place a token at ${outside.join(", ")}: the model knows ${
        lengths.join(", ")
      } positions. Ask for a smaller size, or less text`,
    );
  }
  return rotaryConstants(graph, name, positions, axisDims, theta);
}

export function rotaryConstants(
  graph: Graph,
  name: string,
  positions: readonly (readonly number[])[],
  axisDims: readonly number[],
  theta: number | readonly number[],
): Rotation {
  const { cos, sin } = rotaryTables(positions, axisDims, theta);
  const shape = [positions.length, axisDims.reduce((sum, dim) => sum + dim, 0) / 2];
  return {
    cos: graph.constant(`${name}_cos`, shape, "f32", cos),
    sin: graph.constant(`${name}_sin`, shape, "f32", sin),
  };
}
