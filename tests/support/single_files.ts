/** Components in the files of other programs, made of those of goldens. */
import { type Layout, namesIn } from "../../models/layouts.ts";
import { decodeElements } from "../../runtime/dtype.ts";
import { Checkpoint, type StoredTensor, type TensorSource } from "../../runtime/mod.ts";
import { decoderOf, elementTypeOf } from "../../runtime/weights/storage.ts";
import { GGML_TYPES } from "../../runtime/weights/gguf_types.ts";
import { encodeGguf } from "./gguf.ts";
import { encodeSafetensors, type TensorValues } from "./safetensors.ts";

/** A tensor with its bytes. */
export type Bytes = Pick<StoredTensor, "format" | "shape"> & { readonly bytes: Uint8Array };

/** All tensors of a component's folder, or of a file. */
export function tensorsOf(folder: string): Map<string, Bytes> {
  using checkpoint = Checkpoint.open(folder);
  return bytesOf(checkpoint);
}

export function bytesOf(source: TensorSource): Map<string, Bytes> {
  return new Map([...source.names].map((name) => {
    const { format, shape, byteLength } = source.find(name)!;
    const bytes = new Uint8Array(byteLength);
    source.read(name, 0, bytes);
    return [name, { format, shape, bytes }];
  }));
}

/** Likewise, as the numbers that their blocks stand for. */
export function numbersOf(path: string): Record<string, TensorValues> {
  using checkpoint = Checkpoint.open(path);
  return Object.fromEntries(
    [...checkpoint.names].map((name) => {
      const { format, shape, byteLength, scale } = checkpoint.find(name)!;
      const bytes = new Uint8Array(byteLength);
      checkpoint.read(name, 0, bytes);
      const values = decoderOf(format)?.decode(bytes, scale) ??
        decodeElements(bytes, elementTypeOf(format)!);
      return [name, { dtype: "f32", shape, values }];
    }),
  );
}

/** Joined along the rows. */
function joined(parts: readonly Bytes[], swapsHalves: boolean): Bytes {
  const [{ format, shape: [, ...rest] }] = parts as [Bytes];
  const rows = parts.reduce((sum, { shape }) => sum + shape[0]!, 0);
  const bytes = concatenated(parts.map(({ bytes }) => bytes));
  const half = bytes.length / 2;
  return {
    format,
    shape: [rows, ...rest],
    bytes: swapsHalves ? concatenated([bytes.subarray(half), bytes.subarray(0, half)]) : bytes,
  };
}

function concatenated(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Under the names of another layout. */
export function renamed(tensors: ReadonlyMap<string, Bytes>, layout: Layout): Map<string, Bytes> {
  const result = new Map<string, Bytes>();
  const left = new Set(tensors.keys());
  for (const tail of ["", ".weight", ".bias"]) {
    const modules = [...left].filter((name) => name.endsWith(tail))
      .map((name) => name.slice(0, name.length - tail.length));
    for (const [theirs, ours] of namesIn(layout, modules)) {
      const names = ours.map((name) => name + tail);
      if (!names.every((name) => left.delete(name))) continue;
      const swaps = layout.entries.some((entry) => entry.theirs === theirs && entry.swapsHalves);
      result.set(theirs + tail, joined(names.map((name) => tensors.get(name)!), swaps));
    }
  }
  for (const name of left) result.set(name, tensors.get(name)!);
  return result;
}

/** Writes a file with these tensors. */
export function writeSafetensors(
  path: string,
  tensors: ReadonlyMap<string, Bytes>,
  metadata?: Readonly<Record<string, string>>,
): void {
  const header: Record<string, unknown> = metadata ? { __metadata__: metadata } : {};
  let offset = 0;
  for (const [name, { format, shape, bytes }] of tensors) {
    header[name] = { dtype: format, shape, data_offsets: [offset, offset += bytes.length] };
  }
  const data = concatenated([...tensors.values()].map(({ bytes }) => bytes));
  Deno.writeFileSync(path, encodeSafetensors(header, data));
}

/** With other names or shapes. */
export function mapped(
  tensors: ReadonlyMap<string, Bytes>,
  change: (name: string, tensor: Bytes) => readonly [string, Bytes],
): Map<string, Bytes> {
  return new Map([...tensors].map(([name, tensor]) => change(name, tensor)));
}

/** With `prefix` before every name. */
export function prefixed(prefix: string, tensors: ReadonlyMap<string, Bytes>): Map<string, Bytes> {
  return mapped(tensors, (name, tensor) => [prefix + name, tensor]);
}

/** Those whose names begin with `prefix`, without it. */
export function within(prefix: string, tensors: ReadonlyMap<string, Bytes>): Map<string, Bytes> {
  const own = [...tensors].filter(([name]) => name.startsWith(prefix));
  return new Map(own.map(([name, tensor]) => [name.slice(prefix.length), tensor]));
}

/** ggml's numbers of types. */
const TYPES = new Map([...GGML_TYPES].map(([number, [name]]) => [name.toUpperCase(), number]));

/** Writes a GGUF file with these tensors, as they are. */
export function writeGguf(
  path: string,
  tensors: ReadonlyMap<string, Bytes>,
  architecture: string,
): void {
  const data = encodeGguf({
    metadata: [["general.architecture", { text: architecture }]],
    tensors: [...tensors].map(([name, { format, shape, bytes }]) => [
      name,
      { type: TYPES.get(format)!, shape, data: bytes },
    ]),
  });
  Deno.writeFileSync(path, data);
}

/** The frames of a patch embedding, [dim, channels, frames, ...side], each by itself as in llama.cpp's files. */
export function framesOf({ format, shape, bytes }: Bytes): Bytes[] {
  const [dim, channels, frames, ...side] = shape as [number, number, number, ...number[]];
  const length = bytes.length / (dim * channels * frames);
  return Array.from({ length: frames }, (_, frame) => {
    const own = new Uint8Array(bytes.length / frames);
    for (let i = 0; i < dim * channels; i++) {
      const start = (i * frames + frame) * length;
      own.set(bytes.subarray(start, start + length), i * length);
    }
    return { format, shape: [dim, channels, ...side], bytes: own };
  });
}

/** Heads' rows of queries and keys as llama.cpp moves them: those of both halves in turn. */
export function interleaved({ bytes, ...tensor }: Bytes, headDim: number): Bytes {
  const [rows] = tensor.shape as [number];
  const size = bytes.length / rows;
  const moved = new Uint8Array(bytes.length);
  for (let row = 0; row < rows; row++) {
    const [head, place] = [row - row % headDim, row % headDim];
    const to = head + 2 * (place % (headDim / 2)) + Math.floor(place / (headDim / 2));
    moved.set(bytes.subarray(row * size, (row + 1) * size), to * size);
  }
  return { ...tensor, bytes: moved };
}
