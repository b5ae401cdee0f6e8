/** Tensors while they are traced: shapes, types, and where their elements will be. */
import { bytesPerElement, type StorageFormat } from "../dtype.ts";
import type { Graph } from "./graph.ts";
import { isWeightFormat } from "../quantization/formats.ts";
import type { DeviceTensor } from "../device/device_tensor.ts";
import { elementCount, formatShape, type Shape } from "../shape.ts";
import { allocatedBytes, cutIntoPieces } from "../windows.ts";

/** Memory that only lives inside one run of a program. */
export interface Intermediate {
  /** Unique within its graph. */
  readonly id: number;
  /** Bytes, padding included. */
  readonly byteLength: number;
}

/**
 * A dense row-major array known by shape and type; its elements exist only when a program runs. Several tensors may
 * show the same memory: other shapes, or ranges, of one.
 */
export class Tensor {
  /** The graph it belongs to. */
  readonly graph: Graph;
  /** Name in messages, with the scopes it was made in. */
  readonly name: string;
  /** Sizes, outermost first. */
  readonly shape: Shape;
  /** How its elements are stored; what programs compute is stored element by element. */
  readonly dtype: StorageFormat;
  /** Where the elements live: inside the program, or in a tensor that outlives it. */
  readonly memory: Intermediate | DeviceTensor;
  /** Where in the memory the elements begin, in bytes; see {@linkcode Tensor.range}. */
  readonly byteOffset: number;
  /** Bytes of the elements, padded as they are bound. */
  readonly byteLength: number;
  /** Dispatches of the graph when it was made, or the range that it shows. */
  readonly madeAfter: number;

  /** Made by {@linkcode Graph}; ops never call this. */
  constructor(
    graph: Graph,
    name: string,
    shape: Shape,
    dtype: StorageFormat,
    memory: Intermediate | DeviceTensor,
    byteOffset = 0,
    madeAfter = graph.dispatches.length,
  ) {
    this.graph = graph;
    this.name = name;
    this.shape = shape;
    this.dtype = dtype;
    this.memory = memory;
    this.byteOffset = byteOffset;
    this.madeAfter = madeAfter;
    this.byteLength = Math.min(allocatedBytes(shape, dtype), memory.byteLength - byteOffset);
  }

  /** Whether the tensor shows its memory from the first byte to the last. */
  get isWhole(): boolean {
    return this.byteOffset === 0 && this.byteLength === this.memory.byteLength;
  }

  /** Number of dimensions. */
  get rank(): number {
    return this.shape.length;
  }

  /** Number of elements. */
  get size(): number {
    return elementCount(this.shape);
  }

  /** Size along `axis`; negative axes count from the end. */
  dim(axis: number): number {
    const size = this.shape.at(axis);
    if (size === undefined) {
      throw new RangeError(`Cannot read axis ${axis} of ${this}: it has ${this.rank} dimensions`);
    }
    return size;
  }

  /**
   * The same elements under another shape; costs nothing. One size may be -1.
   *
   * @throws {RangeError} when the number of elements differs
   */
  reshape(...sizes: number[]): Tensor {
    const known = sizes.reduce((product, size) => (size === -1 ? product : product * size), 1);
    const shape = sizes.map((size) => (size === -1 ? this.size / known : size));
    if (elementCount(shape) !== this.size || shape.some((size) => !Number.isInteger(size))) {
      throw new RangeError(
        `Cannot reshape ${this} to ${formatShape(sizes)}: it has ${this.size} elements`,
      );
    }
    const { graph, name, dtype, memory, byteOffset, madeAfter } = this;
    return new Tensor(graph, name, shape, dtype, memory, byteOffset, madeAfter);
  }

  /**
   * Neighbouring elements as a tensor of their own; costs nothing. Of a tensor that outlives the program it can be used
   * until that is overwritten.
   *
   * @param start first element
   * @returns nothing where a binding cannot begin there, or the memory needs several bindings
   */
  range(start: number, shape: Shape): Tensor | undefined {
    if (isWeightFormat(this.dtype)) return undefined;
    const { offsetAlignment, limits } = this.graph.target;
    const byteOffset = this.byteOffset + start * bytesPerElement(this.dtype);
    if (byteOffset % offsetAlignment !== 0) return undefined;
    if (cutIntoPieces(this.memory.byteLength, limits).length > 1) return undefined;
    const madeAfter = this.isWhole ? undefined : this.madeAfter;
    return new Tensor(this.graph, this.name, shape, this.dtype, this.memory, byteOffset, madeAfter);
  }

  /** The tensor's range in another memory of the same size. */
  shownIn(memory: DeviceTensor): Tensor {
    return new Tensor(this.graph, memory.name, this.shape, this.dtype, memory, this.byteOffset);
  }

  /** `blocks.0.q [16, 160] f32`, for error messages. */
  toString(): string {
    return `${this.name} ${formatShape(this.shape)} ${this.dtype}`;
  }
}
