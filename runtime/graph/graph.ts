/** Tracing: ops on symbolic tensors append dispatches to a graph, so shape errors come before anything is allocated. */
import { DeviceTensor } from "../device/device_tensor.ts";
import type { DType } from "../dtype.ts";
import { TensorLimitError } from "../errors.ts";
import { isCounting, type Kernel, type ParamType } from "../shaders/kernel.ts";
import { elementCount, formatShape, type Shape } from "../shape.ts";
import type { Target } from "../target.ts";
import type { Piece, Team } from "../team/team.ts";
import { allocatedBytes, cutIntoPieces } from "../windows.ts";
import { Saturation } from "./saturation.ts";
import { type Intermediate, Tensor } from "./tensor.ts";

export { type Intermediate, Tensor };

/** One kernel on a grid of workgroups, recorded by an op. */
export interface Dispatch {
  /** The kernel's name with the scopes it was recorded in. */
  readonly label: string;
  /** What runs. */
  readonly kernel: Kernel;
  /** Tensors in the order of `kernel.buffers`. */
  readonly tensors: readonly Tensor[];
  /** Values in the order of `kernel.params`. */
  readonly params: readonly number[];
  /** Size of the grid. */
  readonly workgroups: readonly [number, number, number];
  /** Arithmetic operations, for profiles and for cutting submits. */
  readonly flops: number;
  /** Bytes read and written, for the same. */
  readonly bytes: number;
  /** Names of the buffers whose elements may be rounded to f16, as factors of products are. */
  readonly factors?: readonly string[];
  /** Whose counter a kernel that rounds to f16 adds to. */
  readonly layer: string;
  /** What happens in place of a kernel. */
  readonly exchange?: Exchange;
}

/** What an op hands to {@linkcode Graph.dispatch}. */
export interface DispatchSpec {
  /** What runs. */
  readonly kernel: Kernel;
  /** One tensor per buffer slot, by name. */
  readonly buffers: Readonly<Record<string, Tensor>>;
  /** One number per kernel parameter, by name. */
  readonly params: Readonly<Record<string, number>>;
  /** Size of the grid. */
  readonly workgroups: readonly [number, number, number];
  /** Arithmetic operations; 0 by default. */
  readonly flops?: number;
  /** Bytes read and written; those of all tensors by default. */
  readonly bytes?: number;
  /** Names of the buffers whose elements may be rounded to f16; none by default. */
  readonly factors?: readonly string[] | undefined;
  /** Whose counter a kernel that rounds to f16 adds to; the name of its result by default. */
  readonly layer?: string;
  /** What happens in place of the kernel, which binds nothing then. */
  readonly exchange?: Exchange;
}

/** A tensor whose elements are known while tracing, such as a table of sines; it belongs to its program. */
export interface Constant {
  /** Where the elements go. */
  readonly tensor: DeviceTensor;
  /** The elements, computed when they are uploaded where they are many. */
  readonly values: ArrayLike<number> | (() => ArrayLike<number>);
}

/** Elements of one tensor: indices are u32, and the last workgroup of a grid counts past the end. */
const MAX_ELEMENTS = 2 ** 32 - 2 ** 20;

/** Whether a parameter arrives in the kernel as the number it is; f32 may round. */
function fitsType(value: number, type: ParamType): boolean {
  if (type === "f32") return Number.isFinite(Math.fround(value));
  return value === (type === "u32" ? value >>> 0 : value | 0);
}

/** Bytes of tensors, those that several of them show once. */
export function touchedBytes(tensors: readonly Tensor[]): number {
  const isFirst = ({ memory, byteOffset }: Tensor, i: number) =>
    tensors.findIndex((other) => other.memory === memory && other.byteOffset === byteOffset) === i;
  return tensors.filter(isFirst).reduce((sum, { byteLength }) => sum + byteLength, 0);
}

/** A traced computation: dispatches in order, and the tensors that they touch. */
export class Graph {
  /** Names the program in messages. */
  readonly name: string;
  /** What the kernels are chosen for. */
  readonly target: Target;
  /** Dispatches in the order they run. */
  readonly dispatches: Dispatch[] = [];
  /** Tensors with fixed elements. */
  readonly constants: Constant[] = [];
  /** Where kernels count factors that f16 does not hold. */
  readonly saturation: Saturation;
  readonly #isShared: boolean;
  #counters: Tensor | undefined;
  readonly #written = new Set<number>();
  readonly #used = new Map<DeviceTensor, Tensor>();
  /** How many dispatches there were after the last one that writes a tensor outside. */
  readonly #overwritten = new Map<DeviceTensor, number>();
  readonly #scopes: string[] = [];
  #intermediates = 0;

  /**
   * Starts an empty graph.
   *
   * @param target what its kernels are chosen for
   * @param saturation counters that it shares with other programs, allocated by their owner; its own by default
   */
  constructor(name: string, target: Target, saturation?: Saturation) {
    this.name = name;
    this.target = target;
    this.saturation = saturation ?? new Saturation();
    this.#isShared = saturation !== undefined;
  }

  /** Tensors outside the program that it reads or writes. */
  get deviceTensors(): IterableIterator<DeviceTensor> {
    return this.#used.keys();
  }

  /** Device tensors that the graph writes. */
  get written(): IterableIterator<DeviceTensor> {
    return this.#overwritten.keys();
  }

  /** Bytes that each exchange reads back, and that it writes, and how many ranks there are. */
  get exchanges(): {
    readonly broughtBytes: number;
    readonly takenBytes: number;
    readonly ranks: number;
  }[] {
    const sum = (sizes: readonly number[]) => sizes.reduce((total, size) => total + size, 0);
    return this.dispatches.flatMap(({ exchange }) =>
      exchange
        ? [{
          broughtBytes: sum(exchange.broughtBytes),
          takenBytes: sum(exchange.taken.flat().map(({ byteLength }) => byteLength)),
          ranks: exchange.team.size,
        }]
        : []
    );
  }

  /** Whether kernels of it count factors that f16 does not hold. */
  get isCounting(): boolean {
    return this.dispatches.some(({ kernel }) => isCounting(kernel));
  }

  /** Brings a tensor that outlives the program into the graph. */
  use(memory: DeviceTensor): Tensor {
    let tensor = this.#used.get(memory);
    if (!tensor) {
      tensor = new Tensor(this, memory.name, memory.shape, memory.dtype, memory);
      this.#used.set(memory, tensor);
    }
    return tensor;
  }

  /** A tensor with fixed elements, computed where they are a function's, and uploaded when the program is instantiated. */
  constant(name: string, shape: Shape, dtype: DType, values: Constant["values"]): Tensor {
    if (typeof values !== "function" && values.length !== elementCount(shape)) {
      throw new RangeError(
        `Cannot make constant "${this.#qualify(name)}" of shape ${
          formatShape(shape)
        }: ${values.length} values are given`,
      );
    }
    const tensor = new DeviceTensor(this.#qualify(name), shape, dtype);
    this.constants.push({ tensor, values });
    return new Tensor(this, tensor.name, tensor.shape, dtype, tensor);
  }

  /** A new tensor inside the program; an op calls this for its result and then dispatches a kernel that writes it. */
  tensor(name: string, shape: Shape, dtype: DType = "f32"): Tensor {
    if (shape.some((size) => !Number.isInteger(size) || size <= 0)) {
      throw new RangeError(
        `Cannot create tensor "${this.#qualify(name)}" of shape ${
          formatShape(shape)
        }: every size must be at least 1`,
      );
    }
    const memory = { id: this.#intermediates++, byteLength: allocatedBytes(shape, dtype) };
    return new Tensor(this, this.#qualify(name), [...shape], dtype, memory);
  }

  /** Runs `build` with `name.` put in front of the names of the tensors and dispatches made in it. */
  scope<T>(name: string, build: () => T): T {
    this.#scopes.push(name);
    try {
      return build();
    } finally {
      this.#scopes.pop();
    }
  }

  /**
   * Records one kernel invocation.
   *
   * @throws {TypeError} when a buffer or parameter is missing, a tensor of another graph is used, or a range of a tensor
   *   that was overwritten since
   * @throws {TensorLimitError} when the tensors need more bindings than the adapter has, or a tensor is too large for
   *   the kernels' indices
   * @throws {RangeError} when a parameter or the grid does not fit its type
   */
  dispatch(spec: DispatchSpec): void {
    const { kernel } = spec;
    const label = this.#qualify(kernel.name);
    const counts = isCounting(kernel);
    const result = kernel.buffers.find(({ access }) => access === "read_write");
    const layer = spec.layer ?? spec.buffers[result?.name ?? ""]?.name ?? label;
    const tensors = kernel.buffers.map((slot) => {
      const tensor = slot.access === "count" ? this.counterTensor() : spec.buffers[slot.name];
      if (!tensor) {
        throw new TypeError(`Cannot dispatch ${label}: buffer "${slot.name}" is not given`);
      }
      this.#checkUse(label, tensor, slot.access);
      return tensor;
    });
    const params = Object.entries(kernel.params).map(([name, type]) => {
      const value = counts && name === "layer" ? this.saturation.indexOf(layer) : spec.params[name];
      if (value === undefined) {
        throw new TypeError(`Cannot dispatch ${label}: parameter "${name}" is not given`);
      }
      if (!fitsType(value, type)) {
        throw new RangeError(
          `Cannot dispatch ${label}: parameter "${name}" is ${value}, no ${type}`,
        );
      }
      return value;
    });
    if (!spec.workgroups.every((count) => Number.isInteger(count) && count > 0)) {
      throw new RangeError(
        `Cannot dispatch ${label}: its grid is [${spec.workgroups.join(", ")}] workgroups`,
      );
    }
    const bindings = spec.exchange ? 0 : this.bindingsOf(tensors);
    if (bindings > this.target.limits.maxStorageBuffers) {
      const excess =
        `${bindings} storage bindings, the adapter has ${this.target.limits.maxStorageBuffers}`;
      throw new TensorLimitError(
        `Cannot dispatch ${label}: its tensors (${tensors.join("; ")}) need ${excess}`,
        `a kernel needs ${excess}`,
      );
    }
    this.dispatches.push({
      label,
      kernel,
      tensors,
      params,
      workgroups: spec.workgroups,
      flops: spec.flops ?? 0,
      bytes: spec.bytes ?? touchedBytes(tensors),
      layer,
      ...(spec.factors && { factors: spec.factors }),
      ...(spec.exchange && { exchange: spec.exchange }),
    });
    kernel.buffers.forEach((slot, i) => {
      const { memory } = tensors[i]!;
      if (slot.access === "read") return;
      if ("id" in memory) this.#written.add(memory.id);
      else this.#overwritten.set(memory, this.dispatches.length);
    });
  }

  /** Storage bindings that a kernel needs for these tensors. */
  bindingsOf(tensors: readonly Tensor[]): number {
    return tensors.reduce(
      (sum, { memory }) => sum + cutIntoPieces(memory.byteLength, this.target.limits).length,
      0,
    );
  }

  /** The counters of {@linkcode saturation}. Those that nobody shares are a constant, so that they are allocated with the program. */
  counterTensor(): Tensor {
    const { counters } = this.saturation;
    this.#overwritten.set(counters, this.dispatches.length);
    if (this.#isShared) return this.use(counters);
    if (!this.#counters) {
      const { name, shape, dtype } = counters;
      this.constants.push({ tensor: counters, values: new Uint32Array(counters.shape[0]!) });
      this.#counters = new Tensor(this, name, shape, dtype, counters);
    }
    return this.#counters;
  }

  #checkUse(label: string, tensor: Tensor, access: Kernel["buffers"][number]["access"]): void {
    if (tensor.graph !== this) {
      throw new TypeError(
        `Cannot dispatch ${label}: tensor ${tensor} belongs to graph "${tensor.graph.name}"`,
      );
    }
    if (tensor.size > MAX_ELEMENTS) {
      const excess = `has ${tensor.size} elements, kernels count to ${MAX_ELEMENTS}`;
      throw new TensorLimitError(
        `Cannot dispatch ${label}: tensor ${tensor} ${excess}. Ask for a smaller size or fewer frames`,
        `a tensor ${excess}`,
      );
    }
    if (access !== "read") return;
    const { memory } = tensor;
    if (!("id" in memory)) {
      if (tensor.isWhole || (this.#overwritten.get(memory) ?? 0) <= tensor.madeAfter) return;
      throw new TypeError(
        `Cannot dispatch ${label}: range ${tensor} shows memory that was overwritten since; take it again, or use it before`,
      );
    }
    if (!this.#written.has(memory.id)) {
      throw new TypeError(
        `Cannot dispatch ${label}: tensor ${tensor} is read before it is written`,
      );
    }
  }

  #qualify(name: string): string {
    return [...this.#scopes, name].join(".");
  }
}

/** What one exchange is. */
export interface Exchange {
  /** Who takes part. */
  readonly team: Team;
  /** Bytes of what is brought, without padding. */
  readonly broughtBytes: readonly number[];
  /** Pieces of what is taken. */
  readonly taken: readonly (readonly Piece[])[];
  /** Whose counters are looked at. */
  readonly saturation: Saturation;
}
