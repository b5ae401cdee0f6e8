/**
 * Finds what a damaged checkpoint has instead of numbers. Weights are not looked at while they are uploaded,
 * which would cost time at every start; this reads them again once a result shows that something is wrong.
 */
import type { TensorSource } from "./tensor_source.ts";

/** Bytes read from disk at a time. */
const CHUNK_BYTES = 1024 * 1024;

/** Bits of the exponent by storage format; all of them set is NaN or infinity. */
const EXPONENTS: Readonly<Record<string, number>> = { F32: 0x7f800000, F16: 0x7c00, BF16: 0x7f80 };

/**
 * The first tensor that holds NaN or infinity, or nothing.
 *
 * @param names which tensors to look at; formats other than F32, F16 and BF16 are passed over
 */
export function findNonFinite(
  source: TensorSource,
  names: Iterable<string>,
): string | undefined {
  const chunk = new Uint8Array(CHUNK_BYTES);
  for (const name of names) {
    const entry = source.find(name);
    const exponent = entry && EXPONENTS[entry.format];
    if (exponent === undefined) continue;
    for (let start = 0; start < entry!.byteLength; start += CHUNK_BYTES) {
      const part = chunk.subarray(0, Math.min(CHUNK_BYTES, entry!.byteLength - start));
      source.read(name, start, part);
      const words = entry!.format === "F32"
        ? new Uint32Array(part.buffer, 0, part.byteLength / 4)
        : new Uint16Array(part.buffer, 0, part.byteLength / 2);
      for (let i = 0; i < words.length; i++) {
        if ((words[i]! & exponent) === exponent) return name;
      }
    }
  }
  return undefined;
}
