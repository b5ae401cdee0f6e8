/** Programs: functions traced once on symbolic tensors, planned before memory is taken, replayed any number of times. */
import type { Device } from "../device/device.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import type { DType } from "../dtype.ts";
import { Graph } from "../graph/graph.ts";
import type { Saturation } from "../graph/saturation.ts";
import { Tensor } from "../graph/tensor.ts";
import { copyTo } from "../ops/copy/mod.ts";
import type { Shape } from "../shape.ts";
import type { Target } from "../target.ts";
import { storeFactorsAsHalf } from "./half_results.ts";
import { elideJoins } from "./copy_elision.ts";

/** Shape and type of an input that every call of a program writes. */
export class InputSpec {
  /** Sizes, outermost first. */
  readonly shape: Shape;
  /** How the elements are stored. */
  readonly dtype: DType;

  /** Use {@linkcode f32} or {@linkcode u32}. */
  constructor(shape: Shape, dtype: DType) {
    this.shape = shape;
    this.dtype = dtype;
  }
}

/** An f32 input that every call writes. */
export function f32(...shape: number[]): InputSpec {
  return new InputSpec(shape, "f32");
}

/** A u32 input that every call writes. */
export function u32(...shape: number[]): InputSpec {
  return new InputSpec(shape, "u32");
}

/** An input of a program: a spec for what calls write, or tensors that others write. */
export type Input =
  | InputSpec
  | DeviceTensor
  | undefined
  | readonly DeviceTensor[]
  | readonly Readonly<Record<string, DeviceTensor>>[];

/** Inputs of a program by name. */
export type Inputs = Readonly<Record<string, Input>>;

/** Inputs as the traced function sees them. */
export type Traced<I> = { readonly [Key in keyof I]: TracedInput<I[Key]> };

/** An input as the traced function sees it. */
export type TracedInput<T> = T extends undefined ? undefined
  : T extends InputSpec | DeviceTensor ? Tensor
  : T extends readonly DeviceTensor[] ? readonly Tensor[]
  : T extends readonly (infer Item)[] ? readonly { readonly [Key in keyof Item]: Tensor }[]
  : never;

/** Results of a traced function as they outlive it. */
export type Stored<Tree> = Tree extends Tensor ? DeviceTensor
  : { readonly [Key in keyof Tree]: Stored<Tree[Key]> };

/** What a call writes, by the names of the inputs that are specs. */
export type CallValues<I> =
  & {
    readonly [Key in keyof I as I[Key] extends InputSpec ? Key : never]: ArrayLike<number>;
  }
  & {
    readonly [
      Key in keyof I as I[Key] extends InputSpec ? never : InputSpec extends I[Key] ? Key : never
    ]?: ArrayLike<number> | undefined;
  };

/** One run of a program, or only a write, that has not been queued yet. */
export interface Call {
  /** What runs; nothing for a write alone. */
  readonly program?: Program;
  /** Shared tensors that it writes from this side. */
  readonly written?: readonly DeviceTensor[];
  /** Queues the writes of its inputs. */
  write(device: Device): void;
}

/** A traced function with named inputs and outputs: `Values` is what a call writes, `Outputs` are the results. */
export class Program<Values = never, Outputs = unknown> {
  /** Name in messages and labels. */
  readonly name: string;
  /** What was recorded. */
  readonly graph: Graph;
  /** The results; each belongs to this program and outlives its runs. */
  readonly outputs: Outputs;
  readonly #written = new Map<string, DeviceTensor>();
  readonly #stored: DeviceTensor[] = [];

  /** Use {@linkcode program}. */
  constructor(
    name: string,
    target: Target,
    inputs: Inputs,
    build: (inputs: never, graph: Graph) => unknown,
    saturation?: Saturation,
  ) {
    this.name = name;
    this.graph = new Graph(name, target, saturation);
    for (const [key, input] of Object.entries(inputs)) {
      if (!(input instanceof InputSpec)) continue;
      this.#written.set(key, new DeviceTensor(`${name} ${key}`, input.shape, input.dtype));
    }
    const given = { ...inputs, ...Object.fromEntries(this.#written) };
    const results = build(used(this.graph, given) as never, this.graph);
    this.outputs = this.#store(name, results) as Outputs;
    finishGraph(this.graph);
  }

  /** Inputs and outputs that are the program's own. */
  get tensors(): readonly DeviceTensor[] {
    return [...this.#written.values(), ...this.#stored];
  }

  /** A run with the elements of every input that is a spec; nothing happens until it is queued. */
  call(values: Values): Call {
    const given = Object.entries(values as Record<string, ArrayLike<number> | undefined>)
      .flatMap(([name, data]) => (data ? [{ tensor: this.#written.get(name)!, data }] : []));
    return {
      program: this,
      written: given.map(({ tensor }) => tensor),
      write: () => given.forEach(({ tensor, data }) => tensor.write(data)),
    };
  }

  #store(name: string, results: unknown): unknown {
    if (results === undefined) return undefined;
    if (results instanceof Tensor) {
      const stored = new DeviceTensor(name, results.shape, results.dtype);
      copyTo(results, stored);
      this.#stored.push(stored);
      return stored;
    }
    if (Array.isArray(results)) return results.map((part, i) => this.#store(`${name} ${i}`, part));
    return Object.fromEntries(
      Object.entries(results as object).map(([key, part]) => [
        key,
        this.#store(`${name} ${key}`, part),
      ]),
    );
  }
}

/** Brings results of other programs, by themselves or in lists and records, into a graph as they were there. */
export function tensorsIn<Tree>(graph: Graph, tensors: Stored<Tree>): Tree {
  return used(graph, tensors) as Tree;
}

function used(graph: Graph, input: unknown): unknown {
  if (input === undefined) return undefined;
  if (input instanceof DeviceTensor) return graph.use(input);
  if (Array.isArray(input)) return input.map((part) => used(graph, part));
  return Object.fromEntries(
    Object.entries(input as object).map(([key, part]) => [key, used(graph, part)]),
  );
}

/**
 * Traces a function.
 *
 * ```ts
 * const velocity = program("velocity", target, { sample: f32(1, 256, 64), step: u32(1) },
 *   ({ sample, step }, graph) => transformer(graph, weights, sample, step));
 * ```
 *
 * @param target what its kernels are chosen for
 * @param build records the work; gives a tensor, or lists and records of tensors
 * @throws {RangeError} {@linkcode TypeError} of ops, with the names of the tensors
 */
export function program<const I extends Inputs, Output>(
  name: string,
  target: Target,
  inputs: I,
  build: (inputs: Traced<I>, graph: Graph) => Output,
): Program<CallValues<I>, Stored<Output>> {
  return new Program(name, target, inputs, build);
}

/** A write of a tensor that programs share, to be queued like a call. */
export function writing(tensor: DeviceTensor, values: ArrayLike<number>): Call {
  return { written: [tensor], write: () => tensor.write(values) };
}

/** Zeros in tensors that programs share, to be queued like a call. */
export function clearing(tensors: Iterable<DeviceTensor>): Call {
  const written = [...tensors];
  return {
    written,
    write: (device) => {
      const windows = written.flatMap((tensor) => tensor.windows);
      if (windows.length > 0) device.clear(windows);
    },
  };
}

/** Spares copies, and bytes of what may be rounded; see {@linkcode elideJoins} and {@linkcode storeFactorsAsHalf}. */
export function finishGraph(graph: Graph): void {
  elideJoins(graph);
  storeFactorsAsHalf(graph);
}
