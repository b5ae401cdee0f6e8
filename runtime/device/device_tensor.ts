import type { Device } from "./device.ts";
import {
  bytesPerElement,
  decodeElements,
  type DType,
  encodeElements,
  type StorageFormat,
} from "../dtype.ts";
import type { WeightFormat } from "../quantization/block_format.ts";
import {
  BLOCK_FORMATS,
  blockBytes,
  checkBlocks,
  isWeightFormat,
  repack,
  type Room,
  rowsPerGroup,
} from "../quantization/formats.ts";
import { elementCount, formatShape, roundUp, type Shape } from "../shape.ts";
import { allocatedBytes, type BufferWindow, cutIntoPieces } from "../windows.ts";

/** Buffers that together hold `bytes`, and the windows through which they are bound. */
export function createWindows(device: Device, label: string, bytes: number): BufferWindow[] {
  const pieces = cutIntoPieces(bytes, device.target.limits);
  const sizes: number[] = [];
  for (const piece of pieces) sizes[piece.buffer] = piece.offset + piece.size;
  const buffers: GPUBuffer[] = [];
  try {
    for (const [i, size] of sizes.entries()) {
      buffers.push(device.createBuffer(sizes.length > 1 ? `${label}#${i}` : label, size));
    }
  } catch (error) {
    for (const buffer of buffers) device.destroyBuffer(buffer);
    throw error;
  }
  return pieces.map(({ buffer, offset, size }) => ({ buffer: buffers[buffer]!, offset, size }));
}

/** Writes all elements of a tensor, by {@linkcode DeviceTensor.writeBytes} or {@linkcode DeviceTensor.writeRows}. */
export type DeviceTensorSource = (tensor: DeviceTensor) => void;

/**
 * A tensor that outlives programs: a weight, an input, a result, a solver's or a cache's state.
 * It is declared first (so that plans can count it) and holds device memory only between
 * {@linkcode DeviceTensor.allocate} and {@linkcode DeviceTensor.destroy}.
 */
export class DeviceTensor {
  /** Name in messages and buffer labels. */
  readonly name: string;
  /** Sizes, outermost first. */
  readonly shape: Shape;
  /** How its elements are stored. */
  readonly dtype: StorageFormat;
  /** Device memory in bytes, padding included. */
  readonly byteLength: number;
  readonly #source: DeviceTensorSource | undefined;
  #device: Device | undefined;
  #windows: readonly BufferWindow[] | undefined;
  #hostCopy: Uint8Array<ArrayBuffer> | undefined;
  #isPinned = false;
  #revision = 0;
  /** Where writes go while the source is asked for something else than the tensor's own memory. */
  #redirected: ((bytes: Uint8Array, byteOffset: number) => void) | undefined;

  /**
   * Declares a tensor; nothing is allocated.
   *
   * @param source of its elements, for one that never changes
   * @throws {RangeError} when `dtype` has blocks and the rows are not whole ones
   */
  constructor(
    name: string,
    shape: Shape,
    dtype: StorageFormat = "f32",
    source?: DeviceTensorSource,
  ) {
    if (isWeightFormat(dtype)) checkBlocks(name, shape, dtype);
    this.name = name;
    this.shape = [...shape];
    this.dtype = dtype;
    this.byteLength = allocatedBytes(shape, dtype);
    this.#source = source;
  }

  /** Whether the tensor's elements can be had again at any time. */
  get hasSource(): boolean {
    return this.#source !== undefined;
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

  /**
   * Takes device memory (zeroed); does nothing when it already has it.
   *
   * @throws {OutOfMemoryError} when the budget does not hold it
   */
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
    if (this.#redirected) this.#redirected(padded, byteOffset);
    else writeToWindows(this.#requireDevice(), this.windows, padded, byteOffset);
  }

  /**
   * Queues writes of all elements, from the host copy where there is one, else from the source.
   *
   * @param windows memory of {@linkcode DeviceTensor.byteLength} bytes that stands in for the tensor's own
   * @throws {TypeError} when the tensor has no source
   * @throws {Error} of the source
   */
  fill(device = this.#requireDevice(), windows = this.windows): void {
    const write = (bytes: Uint8Array, byteOffset: number) =>
      writeToWindows(device, windows, bytes, byteOffset);
    if (this.#hostCopy) {
      write(this.#hostCopy, 0);
      if (!this.#isPinned) this.#hostCopy = undefined;
      return;
    }
    const copy = this.#isPinned ? new Uint8Array(this.byteLength) : undefined;
    this.#readSource((bytes, byteOffset) => {
      write(bytes, byteOffset);
      copy?.set(bytes, byteOffset);
    });
    this.#hostCopy = copy;
  }

  /**
   * Keeps a copy of all elements in host memory as they lie on the device: {@linkcode DeviceTensor.fill} makes it when it
   * next asks the source, and takes it from then on.
   *
   * @throws {TypeError} when the tensor has no source
   */
  pin(): void {
    this.#requireSource();
    this.#isPinned = true;
  }

  /**
   * Copies all elements from the source into host memory, for the next {@linkcode DeviceTensor.fill} alone unless the
   * tensor is pinned.
   *
   * @param isKept whether there is a copy then; else the system has what was read in its cache of files, or not
   * @throws {TypeError} when the tensor has no source
   * @throws {Error} of the source
   */
  readAhead(isKept: boolean): void {
    if (!isKept) return this.#readSource(() => {});
    const copy = new Uint8Array(this.byteLength);
    this.#readSource((bytes, byteOffset) => copy.set(bytes, byteOffset));
    this.#hostCopy = copy;
  }

  /**
   * Takes all elements as they lie on the device: into its memory where it has some, else into host memory, for
   * every {@linkcode DeviceTensor.fill} until they are taken again or unpinned.
   *
   * @param bytes without padding; they belong to the tensor from then on
   * @throws {TypeError} when the tensor has no source
   */
  take(bytes: Uint8Array<ArrayBuffer>): void {
    this.#requireSource();
    this.sourceChanged();
    if (this.#windows) return this.writeBytes(bytes);
    this.#hostCopy = bytes.byteLength % 4 === 0 ? bytes : padToWord(bytes);
    this.#isPinned = true;
  }

  /** Whether there is a copy in host memory now. */
  get hasHostCopy(): boolean {
    return this.#hostCopy !== undefined;
  }

  /** Whether there is a copy in host memory, or will be. */
  get isPinned(): boolean {
    return this.#isPinned;
  }

  /** Drops the copy in host memory. */
  unpin(): void {
    this.#isPinned = false;
    this.#hostCopy = undefined;
  }

  /** How often the source has changed what it gives. */
  get revision(): number {
    return this.#revision;
  }

  /**
   * Says that the source gives other elements from now on. Streamed weights are read again before their next use; the
   * tensor's own memory is for the caller to {@linkcode DeviceTensor.fill}.
   */
  sourceChanged(): void {
    this.#revision++;
    this.#hostCopy = undefined;
  }

  #readSource(write: (bytes: Uint8Array, byteOffset: number) => void): void {
    const source = this.#requireSource();
    this.#redirected = write;
    try {
      source(this);
    } finally {
      this.#redirected = undefined;
    }
  }

  #requireSource(): DeviceTensorSource {
    if (this.#source) return this.#source;
    throw new TypeError(`Cannot fill tensor "${this.name}": it was declared without a source`);
  }

  /** Rows along the last dimension that {@linkcode writeRows} takes at a time, but at the end: a multiple of this. */
  get rowStep(): number {
    return rowsPerGroup(this.shape, this.#weightFormat());
  }

  /**
   * Queues a write of rows of a quantised weight, as files hold them; they are repacked on the way.
   *
   * @param blocks whole rows: a multiple of {@linkcode rowStep}, or all up to the end
   * @param firstRow a multiple of {@linkcode rowStep}; rows are counted over all dimensions but the last
   * @param scale multiplies every element; taken with the first row, and only by formats that have one (`f8_*`)
   * @param room gives memory for what is repacked, as for {@linkcode repack}
   * @throws {RangeError} when the bytes are no such rows, they hold NaN, or the format has no scale
   * @throws {TypeError} when the tensor is stored element by element
   */
  writeRows(blocks: Uint8Array, firstRow = 0, scale = 1, room?: Room): void {
    const format = this.#weightFormat();
    const { headerBytes, nanBytes = [] } = BLOCK_FORMATS[format];
    const rowBytes = blockBytes(this.shape.slice(-1), format);
    const rows = blocks.byteLength / rowBytes;
    const total = elementCount(this.shape.slice(0, -1));
    const isCut = firstRow + rows < total && rows % this.rowStep !== 0;
    if (
      !Number.isInteger(rows) || !(firstRow >= 0 && firstRow + rows <= total) ||
      firstRow % this.rowStep !== 0 || isCut
    ) {
      throw new RangeError(
        `Cannot write ${blocks.byteLength} bytes at row ${firstRow} of tensor "${this.name}": it has ${total} rows ` +
          `of ${rowBytes} bytes and takes ${this.rowStep} at a time`,
      );
    }
    if (nanBytes.some((byte) => blocks.includes(byte))) {
      throw new RangeError(
        `Cannot write ${rows} rows at row ${firstRow} of tensor "${this.name}": they hold NaN; the file may be damaged`,
      );
    }
    if (headerBytes > 0) {
      if (firstRow === 0) this.writeBytes(new Uint8Array(Float32Array.of(scale, 0, 0, 0).buffer));
    } else if (scale !== 1) {
      throw new RangeError(
        `Cannot write tensor "${this.name}" with scale ${scale}: ${format} has none for the tensor`,
      );
    }
    this.writeBytes(repack(blocks, format, room), headerBytes + firstRow * rowBytes);
  }

  /** Queues a write of all elements, converted to the tensor's dtype. */
  write(values: ArrayLike<number>): void {
    const dtype = this.#elementType();
    if (values.length !== elementCount(this.shape)) {
      throw new RangeError(
        `Cannot write ${values.length} values to tensor "${this.name}": its shape is ${
          formatShape(this.shape)
        }`,
      );
    }
    const isDense = dtype === "f32" && values instanceof Float32Array;
    this.writeBytes(
      isDense
        ? new Uint8Array(values.buffer, values.byteOffset, values.byteLength)
        : encodeElements(values, dtype),
    );
  }

  /** Sets all elements to zero, after what is submitted already and before what will be. */
  clear(): void {
    this.#requireDevice().clear(this.windows);
  }

  /** Reads the raw bytes back, without the padding behind elements. One wait on the device. */
  async readBytes(): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = await this.#requireDevice().read(this.windows);
    if (isWeightFormat(this.dtype)) return bytes;
    return bytes.subarray(0, elementCount(this.shape) * bytesPerElement(this.dtype));
  }

  /** Reads all elements back as numbers. One wait on the device. */
  async read(): Promise<Float64Array> {
    const dtype = this.#elementType();
    return decodeElements(await this.readBytes(), dtype);
  }

  /** Reads an f32 tensor back without widening it. One wait on the device. */
  async readFloat32(): Promise<Float32Array<ArrayBuffer>> {
    if (this.dtype !== "f32") {
      throw new TypeError(`Cannot read tensor "${this.name}" as f32: its dtype is ${this.dtype}`);
    }
    const bytes = await this.readBytes();
    return new Float32Array(bytes.buffer, bytes.byteOffset, elementCount(this.shape));
  }

  #elementType(): DType {
    if (!isWeightFormat(this.dtype)) return this.dtype;
    throw new TypeError(
      `Cannot convert the elements of tensor "${this.name}": it is stored as ${this.dtype}; write its blocks with writeRows`,
    );
  }

  #weightFormat(): WeightFormat {
    if (isWeightFormat(this.dtype)) return this.dtype;
    throw new TypeError(
      `Cannot write blocks to tensor "${this.name}": it is stored as ${this.dtype}; write its elements`,
    );
  }

  #requireDevice(): Device {
    if (!this.#device) throw new Error(`Cannot use tensor "${this.name}": it is not allocated`);
    return this.#device;
  }
}

function writeToWindows(
  device: Device,
  windows: readonly BufferWindow[],
  bytes: Uint8Array,
  byteOffset: number,
): void {
  let start = 0;
  for (const window of windows) {
    const end = start + window.size;
    const from = Math.max(byteOffset, start);
    const to = Math.min(byteOffset + bytes.byteLength, end);
    if (from < to) {
      device.write(
        window.buffer,
        window.offset + from - start,
        bytes.subarray(from - byteOffset, to - byteOffset),
      );
    }
    start = end;
  }
}

function padToWord(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const padded = new Uint8Array(roundUp(bytes.byteLength, 4));
  padded.set(bytes);
  return padded;
}
