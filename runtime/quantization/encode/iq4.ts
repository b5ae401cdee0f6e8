/** `iq4_nl` and `iq4_xs`, as `quantize_row_iq4_nl_impl` of `ggml-quants.c` writes them without an importance matrix. */
import { IQ4_VALUES } from "../blocks_32.ts";
import { EPSILON } from "./k_search.ts";
import { clamp, extremeOf, nearestInt } from "./rounding.ts";

const { fround } = Math;
const PART = 32;
/** Scales are tried around the first guess, so many on either side. */
const TRIES = 7;
const LOWEST = IQ4_VALUES[0]!;

const WEIGHTS = new Float32Array(PART);

/** Number of the value that is closest. */
function closest(x: number): number {
  if (x <= LOWEST) return 0;
  if (x >= IQ4_VALUES[15]!) return 15;
  let low = 0;
  let high = 15;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x < IQ4_VALUES[middle]!) high = middle;
    else low = middle;
  }
  const below = fround(x - IQ4_VALUES[high - 1]!);
  return below < fround(IQ4_VALUES[high]! - x) ? high - 1 : high;
}

/** Sums of the last {@linkcode weigh}. */
let sumqx = 0;
let sumq2 = 0;

/** How well values divided by 1/id are held: leaves the sums of products and of squares. */
function weigh(x: Float32Array, id: number): void {
  sumqx = 0;
  sumq2 = 0;
  for (let j = 0; j < PART; j++) {
    const q = IQ4_VALUES[closest(fround(id * x[j]!))]!;
    const wq = fround(WEIGHTS[j]! * q);
    sumqx = fround(sumqx + fround(wq * x[j]!));
    sumq2 = fround(sumq2 + fround(wq * q));
  }
}

/** The scale of 32 elements with the least error. */
function bestScale(x: Float32Array): number {
  for (let j = 0; j < PART; j++) WEIGHTS[j] = x[j]! * x[j]!;
  const extreme = extremeOf(x);
  if (Math.abs(extreme) < EPSILON) return 0;
  weigh(x, fround(1 / fround(-extreme / LOWEST)));
  let d = sumq2 > 0 ? fround(sumqx / sumq2) : 0;
  let best = fround(d * sumqx);
  for (let step = -TRIES; step <= TRIES; step++) {
    weigh(x, fround((step + LOWEST) / extreme));
    if (sumq2 > 0 && fround(sumqx * sumqx) > fround(best * sumq2)) {
      d = fround(sumqx / sumq2);
      best = fround(d * sumqx);
    }
  }
  return d;
}

function putPart(x: Float32Array, id: number, block: DataView, at: number): void {
  for (let j = 0; j < PART / 2; j++) {
    const low = closest(fround(id * x[j]!));
    const high = closest(fround(id * x[PART / 2 + j]!));
    block.setUint8(at + j, low | (high << 4));
  }
}

export function encodeIq4Nl(x: Float32Array, block: DataView): void {
  const d = bestScale(x);
  block.setFloat16(0, d, true);
  putPart(x, d ? fround(1 / d) : 0, block, 2);
}

export function encodeIq4Xs(x: Float32Array, block: DataView): void {
  const parts = Array.from({ length: 8 }, (_, i) => x.subarray(i * PART, (i + 1) * PART));
  const scales = parts.map(bestScale);
  const d = fround(-extremeOf(scales) / 32);
  const id = d ? fround(1 / d) : 0;
  let low = 0;
  let high = 0;
  parts.forEach((part, i) => {
    const scale = clamp(nearestInt(fround(id * scales[i]!)), -32, 31);
    const factor = fround(d * scale);
    putPart(part, factor ? fround(1 / factor) : 0, block, 8 + 16 * i);
    low |= ((scale + 32) & 15) << (4 * i);
    high |= ((scale + 32) >> 4) << (2 * i);
  });
  block.setFloat16(0, d, true);
  block.setUint16(2, high, true);
  block.setUint32(4, low, true);
}
