/**
 * Finds what a damaged checkpoint has instead of numbers. Weights are not looked at while they are uploaded,
 * which would cost time at every start; this reads them again once a result shows that something is wrong.
 */
import { decoderOf } from "./storage.ts";
import type { TensorSource } from "./tensor_source.ts";

/** Bytes read from disk at a time. */
const CHUNK_BYTES = 1024 * 1024;

/** Bits of the exponent by storage format; all of them set is NaN or infinity. */
const EXPONENTS: Readonly<Record<string, number>> = { F32: 0x7f800000, F16: 0x7c00, BF16: 0x7f80 };

/**
 * The first tensor that holds NaN or infinity, or nothing.
 *
 * @param names which tensors to look at; formats that are not read are passed over
 */
export function findNonFinite(
  source: TensorSource,
  names: Iterable<string>,
): string | undefined {
  const chunk = new Uint8Array(CHUNK_BYTES);
  for (const name of names) {
    const entry = source.find(name);
    const isNonFinite = entry && detectorOf(entry.format);
    if (!isNonFinite) continue;
    const { blockBytes } = decoderOf(entry.format) ?? { blockBytes: 1 };
    const step = Math.floor(CHUNK_BYTES / blockBytes) * blockBytes;
    for (let start = 0; start < entry.byteLength; start += step) {
      const part = chunk.subarray(0, Math.min(step, entry.byteLength - start));
      source.read(name, start, part);
      if (isNonFinite(part)) return name;
    }
  }
  return undefined;
}

/** Looks at a part of a tensor that begins where its buffer does. */
function detectorOf(format: string): ((part: Uint8Array<ArrayBuffer>) => boolean) | undefined {
  const blocks = decoderOf(format);
  if (blocks) return (part) => blocks.decode(part).some((value) => !Number.isFinite(value));
  const exponent = EXPONENTS[format];
  if (exponent === undefined) return undefined;
  return (part) => {
    const words = format === "F32"
      ? new Uint32Array(part.buffer, 0, part.byteLength / 4)
      : new Uint16Array(part.buffer, 0, part.byteLength / 2);
    return words.some((word) => (word & exponent) === exponent);
  };
}
