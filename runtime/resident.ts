import type { Device } from "./device.ts";
import { bytesPerElement, decodeElements, type DType, encodeElements } from "./dtype.ts";
import { elementCount, formatShape, roundUp, type Shape } from "./shape.ts";
import { allocatedBytes, type BufferWindow, cutIntoPieces } from "./windows.ts";

/** Buffers that together hold `bytes`, and the windows through which they are bound. */
export function createWindows(device: Device, label: string, bytes: number): BufferWindow[] {
  const pieces = cutIntoPieces(bytes, device.target.limits);
  const sizes: number[] = [];
  for (const piece of pieces) sizes[piece.buffer] = piece.offset + piece.size;
  const buffers = sizes.map((size, i) =>
    device.createBuffer(sizes.length > 1 ? `${label}#${i}` : label, size)
  );
  return pieces.map(({ buffer, offset, size }) => ({ buffer: buffers[buffer]!, offset, size }));
}

/**
 * A tensor that outlives programs: a weight, an input, a result, a solver's or a cache's state.
 * It is declared first (so that plans can count it) and holds device memory only between
 * {@linkcode Resident.allocate} and {@linkcode Resident.destroy}.
 */
export class Resident {
  /** For messages and buffer labels. */
  readonly name: string;
  /** Sizes, outermost first. */
  readonly shape: Shape;
  /** Element type. */
  readonly dtype: DType;
  /** Device memory in bytes, padding included. */
  readonly byteLength: number;
  #device: Device | undefined;
  #windows: readonly BufferWindow[] | undefined;

  /** Declares a tensor; nothing is allocated. */
  constructor(name: string, shape: Shape, dtype: DType = "f32") {
    this.name = name;
    this.shape = [...shape];
    this.dtype = dtype;
    this.byteLength = allocatedBytes(shape, dtype);
  }

  /** True between `allocate` and `destroy`. */
  get isAllocated(): boolean {
    return this.#windows !== undefined;
  }

  /** The bindable ranges of the memory. */
  get windows(): readonly BufferWindow[] {
    if (!this.#windows) throw new Error(`Cannot use tensor "${this.name}": it is not allocated`);
    return this.#windows;
  }

  /** Takes device memory (zeroed); does nothing when it already has it. */
  allocate(device: Device): this {
    if (this.#windows) return this;
    this.#windows = createWindows(device, this.name, this.byteLength);
    this.#device = device;
    return this;
  }

  /** Gives the memory back at once. */
  destroy(): void {
    for (const buffer of new Set(this.#windows?.map((window) => window.buffer))) {
      this.#device!.destroyBuffer(buffer);
    }
    this.#windows = undefined;
    this.#device = undefined;
  }

  /**
   * Queues a write of raw bytes in the tensor's own format.
   *
   * @param byteOffset a multiple of 4
   * @throws {RangeError} when the bytes do not fit
   */
  writeBytes(bytes: Uint8Array, byteOffset = 0): void {
    const padded = bytes.byteLength % 4 === 0 ? bytes : padToWord(bytes);
    if (byteOffset % 4 !== 0 || byteOffset + padded.byteLength > this.byteLength) {
      throw new RangeError(
        `Cannot write ${bytes.byteLength} bytes at ${byteOffset} of tensor "${this.name}": it holds ${this.byteLength} bytes`,
      );
    }
    let start = 0;
    for (const window of this.windows) {
      const end = start + window.size;
      const from = Math.max(byteOffset, start);
      const to = Math.min(byteOffset + padded.byteLength, end);
      if (from < to) {
        this.#device!.write(
          window.buffer,
          window.offset + from - start,
          padded.subarray(from - byteOffset, to - byteOffset),
        );
      }
      start = end;
    }
  }

  /** Queues a write of all elements, converted to the tensor's dtype. */
  write(values: ArrayLike<number>): void {
    if (values.length !== elementCount(this.shape)) {
      throw new RangeError(
        `Cannot write ${values.length} values to tensor "${this.name}": its shape is ${
          formatShape(this.shape)
        }`,
      );
    }
    const isDense = this.dtype === "f32" && values instanceof Float32Array;
    this.writeBytes(
      isDense
        ? new Uint8Array(values.buffer, values.byteOffset, values.byteLength)
        : encodeElements(values, this.dtype),
    );
  }

  /** Sets all elements to zero, after what is submitted already and before what will be. */
  clear(): void {
    this.#requireDevice().clear(this.windows);
  }

  /** Reads the raw bytes back, without the padding. One wait on the device. */
  async readBytes(): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = await this.#requireDevice().read(this.windows);
    return bytes.subarray(0, elementCount(this.shape) * bytesPerElement(this.dtype));
  }

  /** Reads all elements back as numbers. One wait on the device. */
  async read(): Promise<Float64Array> {
    return decodeElements(await this.readBytes(), this.dtype);
  }

  /** Reads an f32 tensor back without widening it. One wait on the device. */
  async readFloat32(): Promise<Float32Array<ArrayBuffer>> {
    if (this.dtype !== "f32") {
      throw new TypeError(`Cannot read tensor "${this.name}" as f32: its dtype is ${this.dtype}`);
    }
    const bytes = await this.readBytes();
    return new Float32Array(bytes.buffer, bytes.byteOffset, elementCount(this.shape));
  }

  #requireDevice(): Device {
    if (!this.#device) throw new Error(`Cannot use tensor "${this.name}": it is not allocated`);
    return this.#device;
  }
}

function padToWord(bytes: Uint8Array): Uint8Array {
  const padded = new Uint8Array(roundUp(bytes.byteLength, 4));
  padded.set(bytes);
  return padded;
}
