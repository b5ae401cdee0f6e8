/** Layers with random numbers in ComfyUI's formats, and what the definitions of these formats make of them. */
import { encodeElements } from "../../runtime/dtype.ts";
import { randomIntegers } from "../../runtime/ops/ndarray.ts";
import type { Bytes } from "./single_files.ts";

/** As files mark them. */
export type ComfyFormat = "nvfp4" | "mxfp8" | "int8" | "convrot";

const ROTATION = 64;
const MARKS: Readonly<Record<ComfyFormat, object>> = {
  nvfp4: { format: "nvfp4" },
  mxfp8: { format: "mxfp8" },
  int8: { format: "int8_tensorwise" },
  convrot: { format: "int8_tensorwise", convrot: true, convrot_groupsize: ROTATION },
};

/** A layer's tensors by what follows its name, and its numbers, whose deviation is about that of linear layers. */
export function comfyLayer(
  format: ComfyFormat,
  [rows, columns]: readonly [number, number],
  seed: number,
): { readonly tensors: ReadonlyMap<string, Bytes>; readonly values: Float64Array } {
  const codes = randomIntegers([rows, columns], seed, 256).data;
  const mark = new TextEncoder().encode(JSON.stringify(MARKS[format]));
  const tensors = new Map<string, Bytes>();
  const add = (ending: string, format: string, shape: readonly number[], bytes: Uint8Array) =>
    tensors.set(ending, { format, shape, bytes });
  const deviation = columns ** -0.5;
  add(".comfy_quant", "U8", [mark.length], mark);
  if (format === "int8" || format === "convrot") {
    const scales = Float32Array.from({ length: rows }, (_, row) => deviation * (1 + row % 3) / 150);
    add(".weight", "I8", [rows, columns], Uint8Array.from(codes));
    add(".weight_scale", "F32", [rows, 1], encodeElements(scales, "f32"));
    const values = codes.map((code, i) =>
      (code < 128 ? code : code - 256) * scales[Math.floor(i / columns)]!
    );
    return { tensors, values: format === "int8" ? values : unrotated(values) };
  }
  const block = format === "nvfp4" ? 16 : 32;
  const blocks = columns / block;
  const steps = randomIntegers([rows, blocks], seed + 1, 4).data;
  const blockOf = (i: number) => Math.floor(i / columns) * blocks + Math.floor(i % columns / block);
  const scaleShape = [Math.ceil(rows / 128) * 128, Math.ceil(blocks / 4) * 4];
  if (format === "nvfp4") {
    const four = codes.map((code) => code & 15);
    const packed = Uint8Array.from(
      { length: four.length / 2 },
      (_, i) => 16 * four[2 * i]! + four[2 * i + 1]!,
    );
    const whole = Math.fround(deviation / 4);
    add(".weight", "U8", [rows, columns / 2], packed);
    // 0x38 is 1; four steps are half of the way to 2.
    add(
      ".weight_scale",
      "F8_E4M3",
      scaleShape,
      tiled(steps.map((step) => 0x38 + step), rows, blocks),
    );
    add(".weight_scale_2", "F32", [], encodeElements([whole], "f32"));
    const sizes = [0, 0.5, 1, 1.5, 2, 3, 4, 6];
    const values = four.map((code, i) =>
      (code < 8 ? 1 : -1) * sizes[code & 7]! * (1 + steps[blockOf(i)]! / 8) * whole
    );
    return { tensors, values };
  }
  // Numbers from 1/8 to 2 and their opposites.
  const eight = codes.map((code) => (code & 128) + 0x20 + (code & 31));
  const exponents = steps.map((step) => 127 + Math.round(Math.log2(deviation)) - step % 2);
  add(".weight", "F8_E4M3", [rows, columns], Uint8Array.from(eight));
  add(".weight_scale", "U8", scaleShape, tiled(exponents, rows, blocks));
  const values = eight.map((code, i) =>
    (code < 128 ? 1 : -1) * (1 + (code & 7) / 8) * 2 ** ((code >> 3 & 15) - 7) *
    2 ** (exponents[blockOf(i)]! - 127)
  );
  return { tensors, values };
}

/** Scales as cuBLAS wants them: tiles of [4 × 32 rows, 4 columns], each as [32, 4, 4]. */
function tiled(scales: ArrayLike<number>, rows: number, columns: number): Uint8Array {
  const bytes: number[] = [];
  for (let tileRow = 0; tileRow < rows; tileRow += 128) {
    for (let tileColumn = 0; tileColumn < columns; tileColumn += 4) {
      for (let inner = 0; inner < 32; inner++) {
        for (let outer = 0; outer < 4; outer++) {
          for (let i = 0; i < 4; i++) {
            const [row, column] = [tileRow + 32 * outer + inner, tileColumn + i];
            bytes.push(row < rows && column < columns ? scales[row * columns + column]! : 0);
          }
        }
      }
    }
  }
  return Uint8Array.from(bytes);
}

/** Groups of columns times the Hadamard matrix, written out. */
function unrotated(values: Float64Array): Float64Array {
  const matrix = Array.from(
    { length: ROTATION },
    (_, i) =>
      Float64Array.from({ length: ROTATION }, (_, j) => {
        let sign = 1;
        for (let digit = 1; digit < ROTATION; digit *= 4) {
          if ((Math.floor(i / digit) % 4) + (Math.floor(j / digit) % 4) === 3) sign = -sign;
        }
        return sign / Math.sqrt(ROTATION);
      }),
  );
  return values.map((_, at) => {
    const start = at - at % ROTATION;
    return matrix[at % ROTATION]!.reduce((sum, factor, j) => sum + factor * values[start + j]!, 0);
  });
}
