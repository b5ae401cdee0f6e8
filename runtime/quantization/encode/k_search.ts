/** How ggml finds factors and numbers of a part of a `k` block: `make_*_quants` of `ggml-quants.c`, in its order of sums. */
import { clamp, extremeOf, nearestInt } from "./rounding.ts";

const { abs, fround } = Math;
/** Least magnitude that is not taken for zero. */
export const EPSILON = fround(1e-15);

/** What a search found, for the caller to take before the next one. */
export const found = { scale: 0, min: 0 };

/** For numbers of a try, elements of a part, and what these are above the least one. */
const TRY = new Float32Array(32);
const PART = new Float32Array(32);
const ABOVE = new Float32Array(32);

/** What a search with an offset goes through. */
export interface OffsetSearch {
  /** Elements of a part. */
  readonly size: number;
  readonly highest: number;
  /** The first try's offset from `highest`, and the step to the next. */
  readonly first: number;
  readonly step: number;
  readonly tries: number;
  /** Errors are magnitudes, else squares. */
  readonly isAbsolute: boolean;
}

/** Numbers q with x about scale · q − min and the least weighted error go to `quants` from `at` on (`make_qkx2_quants`). */
export function searchOffset(
  search: OffsetSearch,
  x: Float32Array,
  weights: Float32Array,
  quants: Uint8Array,
  at: number,
): void {
  const { size, highest } = search;
  for (let i = 0; i < size; i++) PART[i] = x[at + i]!;
  let min = PART[0]!;
  let max = min;
  let sumW = weights[0]!;
  let sumX = fround(sumW * min);
  for (let i = 1; i < size; i++) {
    const v = PART[i]!;
    if (v < min) min = v;
    if (v > max) max = v;
    sumW = fround(sumW + weights[i]!);
    sumX = fround(sumX + fround(weights[i]! * v));
  }
  if (min > 0) min = 0;
  if (max === min) {
    quants.fill(0, at, at + size);
    found.scale = 0;
    found.min = -min;
    return;
  }
  let inverse = fround(highest / fround(max - min));
  let scale = fround(1 / inverse);
  for (let i = 0; i < size; i++) {
    ABOVE[i] = PART[i]! - min;
    TRY[i] = clamp(nearestInt(fround(inverse * ABOVE[i]!)), 0, highest);
    quants[at + i] = TRY[i]!;
  }
  let bestError = errorOf(search, weights, scale, min, Infinity);
  const [first, step] = [fround(search.first), fround(search.step)];
  for (let turn = 0; turn <= search.tries; turn++) {
    inverse = fround(fround(fround(first + fround(step * turn)) + highest) / fround(max - min));
    let sumL = 0;
    let sumL2 = 0;
    let sumXl = 0;
    for (let i = 0; i < size; i++) {
      const l = clamp(nearestInt(fround(inverse * ABOVE[i]!)), 0, highest);
      TRY[i] = l;
      const wl = fround(weights[i]! * l);
      sumL = fround(sumL + wl);
      sumL2 = fround(sumL2 + fround(wl * l));
      sumXl = fround(sumXl + fround(wl * PART[i]!));
    }
    const determinant = fround(fround(sumW * sumL2) - fround(sumL * sumL));
    if (!(determinant > 0)) continue;
    let thisScale = fround(fround(fround(sumW * sumXl) - fround(sumX * sumL)) / determinant);
    let thisMin = fround(fround(fround(sumL2 * sumX) - fround(sumL * sumXl)) / determinant);
    if (thisMin > 0) {
      thisMin = 0;
      thisScale = fround(sumXl / sumL2);
    }
    const error = errorOf(search, weights, thisScale, thisMin, bestError);
    if (error < bestError) {
      for (let i = 0; i < size; i++) {
        quants[at + i] = TRY[i]!;
        ABOVE[i] = PART[i]! - thisMin;
      }
      bestError = error;
      scale = thisScale;
      min = thisMin;
    }
  }
  found.scale = scale;
  found.min = -min;
}

/** The weighted error of `PART` as `TRY` holds it; some part of it where it is `limit` or more. */
function errorOf(
  { size, isAbsolute }: OffsetSearch,
  weights: Float32Array,
  scale: number,
  min: number,
  limit: number,
): number {
  let error = 0;
  // It only grows, so that the rest may be omitted.
  for (let i = 0; i < size && !(error >= limit); i++) {
    const difference = fround(fround(fround(scale * TRY[i]!) + min) - PART[i]!);
    const own = isAbsolute ? abs(difference) : fround(difference * difference);
    error = fround(error + fround(weights[i]! * own));
  }
  return error;
}

/** Of 16 elements, numbers from −`highest` up, stored with `highest` added, and their factor (`make_qx_quants` of type 1). */
export function searchSymmetric(
  highest: number,
  x: Float32Array,
  quants: Int8Array,
  at: number,
): number {
  const extreme = extremeOf(x, at, at + 16);
  if (abs(extreme) < EPSILON) {
    quants.fill(0, at, at + 16);
    return 0;
  }
  let inverse = fround(-highest / extreme);
  let sumLx = 0;
  let sumL2 = 0;
  for (let i = at; i < at + 16; i++) {
    const v = x[i]!;
    const l = clamp(nearestInt(fround(inverse * v)), -highest, highest - 1);
    quants[i] = l + highest;
    const w = fround(v * v);
    sumLx = fround(sumLx + fround(fround(w * v) * l));
    sumL2 = fround(sumL2 + fround(fround(w * l) * l));
  }
  let scale = sumL2 ? fround(sumLx / sumL2) : 0;
  let best = fround(scale * sumLx);
  for (let turn = -9; turn <= 9; turn++) {
    if (turn === 0) continue;
    inverse = fround(-fround(highest + fround(fround(0.1) * turn)) / extreme);
    sumLx = 0;
    sumL2 = 0;
    for (let i = at; i < at + 16; i++) {
      const v = x[i]!;
      const l = clamp(nearestInt(fround(inverse * v)), -highest, highest - 1);
      const w = fround(v * v);
      sumLx = fround(sumLx + fround(fround(w * v) * l));
      sumL2 = fround(sumL2 + fround(fround(w * l) * l));
    }
    if (sumL2 > 0 && fround(sumLx * sumLx) > fround(best * sumL2)) {
      for (let i = at; i < at + 16; i++) {
        quants[i] = highest + clamp(nearestInt(fround(inverse * x[i]!)), -highest, highest - 1);
      }
      scale = fround(sumLx / sumL2);
      best = fround(scale * sumLx);
    }
  }
  return scale;
}

/** Of 16 elements, numbers from −4 to 3, stored with 4 added and changed while that helps; their factor (`make_q3_quants`). */
export function searchThreeBits(x: Float32Array, quants: Int8Array, at: number): number {
  const extreme = extremeOf(x, at, at + 16);
  if (abs(extreme) < EPSILON) {
    quants.fill(0, at, at + 16);
    return 0;
  }
  const inverse = fround(-4 / extreme);
  let sumLx = 0;
  let sumL2 = 0;
  for (let i = at; i < at + 16; i++) {
    const v = x[i]!;
    const l = clamp(nearestInt(fround(inverse * v)), -4, 3);
    quants[i] = l;
    const w = fround(v * v);
    sumLx = fround(sumLx + fround(fround(w * v) * l));
    sumL2 = fround(sumL2 + fround(fround(w * l) * l));
  }
  for (let turn = 0; turn < 5; turn++) {
    let isChanged = false;
    for (let i = at; i < at + 16; i++) {
      const v = x[i]!;
      const w = fround(v * v);
      const wv = fround(w * v);
      const old = quants[i]!;
      let lx = fround(sumLx - fround(wv * old));
      if (!(lx > 0)) continue;
      let l2 = fround(sumL2 - fround(fround(w * old) * old));
      const l = clamp(nearestInt(fround(fround(v * l2) / lx)), -4, 3);
      if (l === old) continue;
      lx = fround(lx + fround(wv * l));
      l2 = fround(l2 + fround(fround(w * l) * l));
      if (l2 > 0 && fround(fround(lx * lx) * sumL2) > fround(fround(sumLx * sumLx) * l2)) {
        quants[i] = l;
        sumLx = lx;
        sumL2 = l2;
        isChanged = true;
      }
    }
    if (!isChanged) break;
  }
  for (let i = at; i < at + 16; i++) quants[i] = quants[i]! + 4;
  return sumL2 > 0 ? fround(sumLx / sumL2) : 0;
}
