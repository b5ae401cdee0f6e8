/** What a file of weights says of its tensors, whatever its container is; its first bytes tell which one. */
import type { FileSource } from "../../platform/mod.ts";
import type { TensorEntry } from "./container.ts";
import { GGUF_MAGIC, type GgufHeader, readGgufHeader } from "./gguf.ts";
import type { GgufValue } from "./gguf_types.ts";
import { beginsWith, LEGACY_MAGIC, readTorchHeader, ZIP_MAGIC } from "./pickle/torch_file.ts";
import { readSafetensorsHeader } from "./safetensors.ts";

/**
 * Reads and checks what an open file says of its tensors: safetensors, or what PyTorch saved. No tensor data is read, and
 * nothing of a pickle is run.
 *
 * @param path only for messages
 * @param wanted what the caller reads, for messages
 * @throws {SyntaxError} when the file is damaged, another kind of file, or refers to anything but tensors and plain values
 */
export function readTensorHeader(
  file: FileSource,
  path: string,
  wanted = "safetensors",
): {
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  readonly metadata: ReadonlyMap<string, GgufValue>;
} {
  const head = firstBytes(file);
  if (beginsWith(head, ZIP_MAGIC) || beginsWith(head, LEGACY_MAGIC)) {
    return readTorchHeader(file, path);
  }
  const { tensors, metadata } = readSafetensorsHeader(file, path, wanted);
  return { tensors, metadata: new Map(Object.entries(metadata)) };
}

/** As {@linkcode readTensorHeader}, of GGUF files too. */
export function readFileHeader(file: FileSource, path: string): GgufHeader {
  const head = firstBytes(file);
  const magic = head.byteLength < 4 ? 0 : new DataView(head.buffer).getUint32(0, true);
  if (magic === GGUF_MAGIC) return readGgufHeader(file, path);
  return { ...readTensorHeader(file, path, "safetensors or GGUF"), arrays: new Map() };
}

function firstBytes(file: FileSource): Uint8Array<ArrayBuffer> {
  const head = new Uint8Array(Math.min(LEGACY_MAGIC.length, file.size));
  file.read(0, head);
  return head;
}
