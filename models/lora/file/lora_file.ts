/** An open LoRA file: its header, its small numbers at once, its tensors without stopping the thread. */
import {
  type FileSource,
  NotFoundError,
  openFileLater,
  sharedBytes,
} from "../../../platform/mod.ts";
import { readTensorHeader, type TensorEntry } from "../../../runtime/mod.ts";
import { LoraError } from "../lora_error.ts";
import type { LoraTensor } from "../types.ts";

/** Read at a time: long enough for the disk, short enough that requests are answered in between. */
const CHUNK_BYTES = 4 * 1024 * 1024;

/** Types that factors may have; all bits of the exponent set is NaN or infinity. */
const TYPES: Readonly<Record<string, { dtype: LoraTensor["dtype"]; exponent: number }>> = {
  F32: { dtype: "f32", exponent: 0x7f800000 },
  F16: { dtype: "f16", exponent: 0x7c00 },
  BF16: { dtype: "bf16", exponent: 0x7f80 },
};

const NUMBERS: Readonly<Record<string, (view: DataView) => number>> = {
  F64: (view) => view.getFloat64(0, true),
  F32: (view) => view.getFloat32(0, true),
  F16: (view) => view.getFloat16(0, true),
  // The upper half of an f32.
  BF16: (view) => new Float32Array(Uint32Array.of(view.getUint16(0, true) << 16).buffer)[0]!,
  I64: (view) => Number(view.getBigInt64(0, true)),
  I32: (view) => view.getInt32(0, true),
  I16: (view) => view.getInt16(0, true),
  U8: (view) => view.getUint8(0),
};

export class LoraFile implements Disposable {
  readonly path: string;
  readonly #file: FileSource;
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  /** Text of the trainer. */
  readonly metadata: Readonly<Record<string, string>>;

  private constructor(path: string, file: FileSource) {
    const { tensors, metadata } = readTensorHeader(file, path);
    this.path = path;
    this.#file = file;
    this.tensors = tensors;
    this.metadata = Object.fromEntries(
      [...metadata].filter((pair): pair is [string, string] => typeof pair[1] === "string"),
    );
    const strided = [...tensors.values()].find(({ strides }) => strides);
    if (strided) {
      throw new LoraError(
        `Cannot read the LoRA "${path}": the elements of "${strided.name}" do not lie one after the other; save it as safetensors`,
      );
    }
  }

  static async open(path: string): Promise<LoraFile> {
    let file: FileSource;
    try {
      file = await openFileLater(path);
    } catch (cause) {
      const what = cause instanceof NotFoundError ? "it does not exist" : String(cause);
      throw new LoraError(`Cannot read the LoRA "${path}": ${what}`, [], { cause });
    }
    try {
      if (file.isFolder) {
        throw new LoraError(`Cannot read the LoRA "${path}": it is a folder; name a file in it`);
      }
      return new LoraFile(path, file);
    } catch (cause) {
      file.close();
      if (cause instanceof LoraError) throw cause;
      const what = cause instanceof Error ? cause.message : String(cause);
      throw new LoraError(
        what.startsWith("Cannot") ? what : `Cannot read the LoRA "${path}": ${what}`,
        [],
        { cause },
      );
    }
  }

  readNumber({ byteOffset, byteLength, shape, format }: TensorEntry): number | undefined {
    if (byteLength > 8 || byteLength === 0 || shape.some((size) => size !== 1)) return undefined;
    const bytes = new Uint8Array(8);
    try {
      this.#file.read(byteOffset, bytes.subarray(0, byteLength));
    } catch (cause) {
      throw this.#unreadable(cause);
    }
    const view = new DataView(bytes.buffer);
    return NUMBERS[format]?.(view);
  }

  /** Reads tensors that {@linkcode isReadable} accepts into shared memory, and looks at every number. */
  async read(entries: Iterable<TensorEntry>): Promise<Map<string, LoraTensor>> {
    const inOrder = [...entries].sort((a, b) => a.byteOffset - b.byteOffset);
    const tensors = new Map<string, LoraTensor>();
    const problems: string[] = [];
    const chunk = new Uint8Array(CHUNK_BYTES);
    for (const entry of inOrder) {
      const { dtype, exponent } = TYPES[entry.format]!;
      const bytes = new Uint8Array(sharedBytes(entry.byteLength));
      let bad = -1;
      for (let start = 0; start < entry.byteLength; start += CHUNK_BYTES) {
        const part = chunk.subarray(0, Math.min(CHUNK_BYTES, entry.byteLength - start));
        await this.#fill(entry.byteOffset + start, part);
        bytes.set(part, start);
        if (bad !== -1) continue;
        const at = findNonFinite(part, dtype === "f32" ? 4 : 2, exponent);
        if (at !== -1) bad = start / (dtype === "f32" ? 4 : 2) + at;
      }
      if (bad !== -1) problems.push(`"${entry.name}" has NaN or infinity at element ${bad}`);
      tensors.set(entry.name, { shape: entry.shape, dtype, bytes });
    }
    if (problems.length > 0) {
      const more = problems.length > 1 ? `, and ${problems.length - 1} more tensors do` : "";
      throw new LoraError(`Cannot use the LoRA "${this.path}": ${problems[0]}${more}`, problems);
    }
    return tensors;
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }

  async #fill(position: number, target: Uint8Array): Promise<void> {
    try {
      await this.#file.readLater(position, target);
    } catch (cause) {
      throw this.#unreadable(cause);
    }
  }

  #unreadable(cause: unknown): LoraError {
    const what = cause instanceof Error ? cause.message : String(cause);
    return new LoraError(`Cannot read the LoRA "${this.path}": ${what}`, [], { cause });
  }
}

export function isReadable({ format }: TensorEntry): boolean {
  return Object.hasOwn(TYPES, format);
}

function findNonFinite(bytes: Uint8Array<ArrayBuffer>, size: 2 | 4, exponent: number): number {
  const length = bytes.byteLength / size;
  const words = size === 4
    ? new Uint32Array(bytes.buffer, bytes.byteOffset, length)
    : new Uint16Array(bytes.buffer, bytes.byteOffset, length);
  for (let i = 0; i < length; i++) {
    if ((words[i]! & exponent) === exponent) return i;
  }
  return -1;
}
