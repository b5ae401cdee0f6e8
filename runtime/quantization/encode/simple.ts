/** Blocks of 32 with one scale, as `ggml-quants.c` writes them: `quantize_row_*_ref`. */
import { MXFP4_VALUES } from "../blocks_32.ts";
import { extremeOf, roundAway } from "./rounding.ts";

const { abs, fround, min, trunc } = Math;
const SIZE = 32;
const HALF = 16;

function inverse(d: number): number {
  return d ? fround(1 / d) : 0;
}

/** Writes numbers of four bits, and returns the fifth bits. */
function putNibbles(block: DataView, at: number, quant: (i: number) => number): number {
  let fifths = 0;
  for (let j = 0; j < HALF; j++) {
    const low = quant(j);
    const high = quant(HALF + j);
    block.setUint8(at + j, (low & 15) | ((high & 15) << 4));
    fifths |= (low >> 4) << j;
    fifths |= (high >> 4) << (HALF + j);
  }
  return fifths;
}

export type Encoder = (x: Float32Array, block: DataView) => void;

/** Of a symmetric block, whose zero is `middle`. */
export function symmetricEncoder(middle: 8 | 16): Encoder {
  return (x, block) => {
    const d = fround(extremeOf(x) / -middle);
    const id = inverse(d);
    block.setFloat16(0, d, true);
    const quant = (i: number) =>
      min(2 * middle - 1, trunc(fround(fround(x[i]! * id) + middle + 0.5)));
    if (middle === 8) putNibbles(block, 2, quant);
    else block.setUint32(2, putNibbles(block, 6, quant), true);
  };
}

/** Of a block with an offset, whose numbers go from 0 to `highest`. */
export function offsetEncoder(highest: 15 | 31): Encoder {
  return (x, block) => {
    let low = x[0]!;
    let high = x[0]!;
    for (let i = 1; i < SIZE; i++) {
      if (x[i]! < low) low = x[i]!;
      if (x[i]! > high) high = x[i]!;
    }
    const d = fround(fround(high - low) / highest);
    const id = inverse(d);
    block.setFloat16(0, d, true);
    block.setFloat16(2, low, true);
    const quant = (i: number) =>
      min(highest, trunc(fround(fround(fround(x[i]! - low) * id) + 0.5)));
    if (highest === 15) putNibbles(block, 4, quant);
    else block.setUint32(4, putNibbles(block, 8, quant), true);
  };
}

export function encodeQ80(x: Float32Array, block: DataView): void {
  const d = fround(abs(extremeOf(x)) / 127);
  const id = inverse(d);
  block.setFloat16(0, d, true);
  for (let j = 0; j < SIZE; j++) block.setInt8(2 + j, roundAway(fround(x[j]! * id)));
}

export function encodeMxfp4(x: Float32Array, block: DataView): void {
  const size = abs(extremeOf(x));
  const e = size > 0 ? (Math.floor(fround(Math.log2(size))) - 2 + 127) & 255 : 0;
  const d = 2 ** (e - 128);
  block.setUint8(0, e);
  putNibbles(block, 1, (i) => {
    let best = 0;
    let least = abs(x[i]!);
    for (let q = 1; q < 16; q++) {
      const error = abs(fround(fround(MXFP4_VALUES[q]! * d) - x[i]!));
      if (error < least) {
        best = q;
        least = error;
      }
    }
    return best;
  });
}
