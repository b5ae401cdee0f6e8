/** Latents enlarged as `torch.nn.functional.interpolate` enlarges them, with `align_corners=False`. */
import type { HiresUpscaler } from "./settings.ts";

export type LatentFilter = Exclude<HiresUpscaler, "lanczos" | "model">;

interface Sides {
  readonly width: number;
  readonly height: number;
}

/** Which values a position is made of, and their weights. */
type Taps = readonly (readonly [at: number, weight: number])[];

/** torch's cubic is sharper without antialiasing than with. */
const cubic = (a: number) => (x: number): number =>
  x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
const linear = (x: number): number => Math.max(0, 1 - x);

/** Kernels by filter; antialiasing gives nothing to what lies beyond the edge, where others repeat it. */
const KERNELS: Readonly<
  Partial<Record<LatentFilter, { weight: (x: number) => number; isTrimmed: boolean }>>
> = {
  latent: { weight: linear, isTrimmed: false },
  latent_antialiased: { weight: linear, isTrimmed: true },
  latent_bicubic: { weight: cubic(-0.75), isTrimmed: false },
  latent_bicubic_antialiased: { weight: cubic(-0.5), isTrimmed: true },
};

/** Latents [channels, height, width] that cover another size, not smaller; what is too much at one side is cut off evenly. */
export function enlargeLatents(
  latents: Float32Array,
  from: Sides,
  to: Sides,
  filter: LatentFilter,
): Float32Array<ArrayBuffer> {
  const scale = Math.max(to.width / from.width, to.height / from.height);
  const side = (length: number, wanted: number) => Math.max(wanted, Math.floor(length * scale));
  const columns = tapsOf(from.width, side(from.width, to.width), to.width, filter);
  const rows = tapsOf(from.height, side(from.height, to.height), to.height, filter);
  const channels = latents.length / (from.width * from.height);
  const wide = resample(latents, channels * from.height, from.width, 1, columns);
  return resample(wide, channels, from.height, to.width, rows);
}

/** The positions in the middle of `scaled` ones. */
function tapsOf(from: number, scaled: number, kept: number, filter: LatentFilter): Taps[] {
  const before = Math.floor((scaled - kept) / 2);
  const last = from - 1;
  const kernel = KERNELS[filter];
  return Array.from({ length: kept }, (_, i): Taps => {
    const place = before + i;
    if (!kernel) {
      const centre = filter === "latent_nearest" ? place : place + 0.5;
      return [[Math.min(last, Math.floor(centre * from / scaled)), 1]];
    }
    const centre = (place + 0.5) * from / scaled - 0.5;
    const taps = [-1, 0, 1, 2].map((step) => Math.floor(centre) + step)
      .filter((at) => !kernel.isTrimmed || at >= 0 && at <= last)
      .map((at) =>
        [Math.min(last, Math.max(0, at)), kernel.weight(Math.abs(at - centre))] as const
      );
    const sum = taps.reduce((sum, [, weight]) => sum + weight, 0);
    return taps.map(([at, weight]) => [at, weight / sum]);
  });
}

/** Along the middle of three axes: `outer` times `length` rows of `inner` values. */
function resample(
  values: Float32Array,
  outer: number,
  length: number,
  inner: number,
  taps: readonly Taps[],
): Float32Array<ArrayBuffer> {
  const result = new Float32Array(outer * taps.length * inner);
  for (let o = 0; o < outer; o++) {
    for (const [i, own] of taps.entries()) {
      const to = (o * taps.length + i) * inner;
      for (const [at, weight] of own) {
        const start = (o * length + at) * inner;
        for (let k = 0; k < inner; k++) result[to + k]! += weight * values[start + k]!;
      }
    }
  }
  return result;
}
