/** Elements from one stored format to another. */
import { decodeFloats, encodeElements } from "../../../runtime/dtype.ts";
import { quantize } from "../../../runtime/quantization/encode/mod.ts";
import { dequantize } from "../../../runtime/quantization/formats.ts";
import { blockFormatOf, elementTypeOf } from "../../../runtime/weights/storage.ts";

export interface Conversion {
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly from: string;
  readonly scale: number;
  readonly to: string;
  /** Whether NaN and infinity are copied, of vectors that no layer may use. */
  readonly takesNonFinite?: boolean;
  /** Divides what is written, in formats that have a scale for the tensor. */
  readonly newScale: number;
}

export class NonFiniteError extends RangeError {}

export function valuesOf(
  { name, bytes, from, scale, takesNonFinite }:
    & Pick<Conversion, "name" | "bytes" | "from" | "scale">
    & Partial<Conversion>,
): Float32Array<ArrayBuffer> {
  const blocks = blockFormatOf(from);
  const values = blocks
    ? dequantize(bytes, blocks, scale)
    : decodeFloats(bytes, elementTypeOf(from)!);
  for (let i = 0; i < values.length && !takesNonFinite; i++) {
    if (!Number.isFinite(values[i])) {
      throw new NonFiniteError(
        `Cannot convert tensor "${name}": it holds ${
          values[i]
        }; the file may be damaged, fetch it again`,
      );
    }
  }
  return values;
}

export function convert(conversion: Conversion): Uint8Array<ArrayBuffer> {
  const { name, to, newScale } = conversion;
  const values = valuesOf(conversion);
  const blocks = blockFormatOf(to);
  if (blocks) return quantize(values, blocks, newScale);
  const dtype = elementTypeOf(to)!;
  const largest = dtype === "f16" ? values.find((value) => Math.abs(value) >= 65520) : undefined;
  if (largest === undefined) return encodeElements(values, dtype);
  throw new RangeError(
    `Cannot store tensor "${name}" as f16: it holds ${largest}, the limit is 65504; take bf16`,
  );
}
