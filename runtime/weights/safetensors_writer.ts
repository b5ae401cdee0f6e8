/** The head of a safetensors file, and where its tensors go. */
import { elementCount } from "../shape.ts";
import type { FileLayout, NewTensor } from "./container.ts";
import { FORMAT_BITS } from "./safetensors.ts";

/** What the data begins at a multiple of. */
const ALIGNMENT = 8;

/**
 * Lays a file out, in the order of the tensors.
 *
 * @throws {RangeError} when safetensors has no such format
 */
export function layOutSafetensors(
  tensors: readonly NewTensor[],
  metadata: Readonly<Record<string, string>> = {},
): FileLayout {
  let offset = 0;
  const starts: number[] = [];
  const entries = tensors.map(({ name, format, shape }) => {
    const bits = FORMAT_BITS.get(format);
    if (bits === undefined) {
      throw new RangeError(`Cannot write tensor "${name}" as ${format} into a safetensors file`);
    }
    starts.push(offset);
    const start = offset;
    offset += elementCount(shape) * bits / 8;
    return [name, { dtype: format, shape, data_offsets: [start, offset] }] as const;
  });
  const json = JSON.stringify(Object.fromEntries([["__metadata__", metadata], ...entries]));
  const text = new TextEncoder().encode(json);
  const header = new Uint8Array(8 + Math.ceil(text.byteLength / ALIGNMENT) * ALIGNMENT).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(header.byteLength - 8), true);
  header.set(text, 8);
  return {
    header,
    byteOffsets: starts.map((start) => header.byteLength + start),
    fileBytes: header.byteLength + offset,
  };
}
