/** GGUF files for tests. */

/** A value of the metadata, by its type's name. */
export type GgufField =
  | { readonly u32: number }
  | { readonly u64: bigint }
  | { readonly f32: number }
  | { readonly bool: boolean }
  | { readonly text: string | Uint8Array }
  | { readonly texts: readonly string[] }
  | { readonly i32s: readonly number[] }
  | { readonly f32s: readonly number[] }
  | { readonly bytes: Uint8Array };

/** A tensor to be written; what is omitted follows from the others. */
export interface GgufTensor {
  /** ggml's number of the type; F32 by default. */
  readonly type?: number;
  /** Outermost first. */
  readonly shape: readonly (number | bigint)[];
  readonly data?: Uint8Array;
  /** Offset of the tensor from the start of the data. */
  readonly offset?: bigint;
}

/** What goes into a file; counts and the rest can be wrong on purpose. */
export interface GgufContents {
  readonly version?: number;
  readonly metadata?: readonly (readonly [key: string, field: GgufField])[];
  readonly tensors?: readonly (readonly [name: string, tensor: GgufTensor])[];
  readonly alignment?: number;
  readonly tensorCount?: bigint;
  readonly keyCount?: bigint;
}

class Sink {
  readonly #parts: Uint8Array[] = [];
  length = 0;

  bytes(part: Uint8Array): this {
    this.#parts.push(part);
    this.length += part.byteLength;
    return this;
  }

  u32(value: number): this {
    const view = new DataView(new ArrayBuffer(4));
    view.setUint32(0, value, true);
    return this.bytes(new Uint8Array(view.buffer));
  }

  u64(value: number | bigint): this {
    const view = new DataView(new ArrayBuffer(8));
    view.setBigUint64(0, BigInt.asUintN(64, BigInt(value)), true);
    return this.bytes(new Uint8Array(view.buffer));
  }

  text(value: string | Uint8Array): this {
    const bytes = typeof value === "string" ? new TextEncoder().encode(value) : value;
    return this.u64(bytes.byteLength).bytes(bytes);
  }

  padTo(alignment: number): this {
    const rest = this.length % alignment;
    return rest === 0 ? this : this.bytes(new Uint8Array(alignment - rest));
  }

  join(): Uint8Array<ArrayBuffer> {
    const result = new Uint8Array(this.length);
    let at = 0;
    for (const part of this.#parts) {
      result.set(part, at);
      at += part.byteLength;
    }
    return result;
  }
}

/** Bytes of a file. */
export function encodeGguf(contents: GgufContents): Uint8Array<ArrayBuffer> {
  const { version = 3, metadata = [], tensors = [], alignment = 32 } = contents;
  const sink = new Sink().bytes(new TextEncoder().encode("GGUF")).u32(version);
  sink.u64(contents.tensorCount ?? tensors.length).u64(contents.keyCount ?? metadata.length);
  for (const [key, field] of metadata) writeField(sink.text(key), field);
  const data = new Sink();
  for (const [name, { type = 0, shape, data: bytes = new Uint8Array(0), offset }] of tensors) {
    data.padTo(alignment);
    sink.text(name).u32(shape.length);
    for (const size of shape.toReversed()) sink.u64(size);
    sink.u32(type).u64(offset ?? data.length);
    data.bytes(bytes);
  }
  return sink.padTo(alignment).bytes(data.join()).join();
}

function writeField(sink: Sink, field: GgufField): void {
  const f32 = (value: number) => new Uint8Array(Float32Array.of(value).buffer);
  if ("u32" in field) sink.u32(4).u32(field.u32);
  else if ("u64" in field) sink.u32(10).u64(field.u64);
  else if ("f32" in field) sink.u32(6).bytes(f32(field.f32));
  else if ("bool" in field) sink.u32(7).bytes(Uint8Array.of(field.bool ? 1 : 0));
  else if ("text" in field) sink.u32(8).text(field.text);
  else if ("texts" in field) {
    sink.u32(9).u32(8).u64(field.texts.length);
    for (const text of field.texts) sink.text(text);
  } else if ("i32s" in field) {
    sink.u32(9).u32(5).u64(field.i32s.length).bytes(
      new Uint8Array(Int32Array.from(field.i32s).buffer),
    );
  } else if ("f32s" in field) {
    sink.u32(9).u32(6).u64(field.f32s.length).bytes(
      new Uint8Array(Float32Array.from(field.f32s).buffer),
    );
  } else sink.u32(9).u32(0).u64(field.bytes.byteLength).bytes(field.bytes);
}
