/**
 * Goldens of the reference: what a model gives for known weights and inputs, and how close we come to it.
 * `tools/reference/README.md` says what is in them.
 */
import { openFile } from "../../platform/mod.ts";
import { fileURLToPath } from "node:url";
import {
  Checkpoint,
  decodeElements,
  type DType,
  formatShape,
  readSafetensorsHeader,
  sameShape,
  type Shape,
  stridesOf,
  type TensorEntry,
} from "../../runtime/mod.ts";
import { withDrawnWeights } from "./seeded_weights.ts";

/** A dense array with its shape. */
export interface Values {
  /** Outermost first. */
  readonly shape: Shape;
  /** Row-major. */
  readonly data: ArrayLike<number>;
}

/** One call of the reference. */
export interface GoldenCall {
  /** First part of its tensors' names. */
  readonly name: string;
  /** What was passed beside tensors. */
  readonly args: Readonly<Record<string, unknown>>;
  /** Names of the tensors passed. */
  readonly inputs: readonly string[];
  /** Names of the tensors returned. */
  readonly outputs: readonly string[];
}

const DTYPES: Readonly<Record<string, DType>> = {
  F32: "f32",
  F16: "f16",
  BF16: "bf16",
  I32: "i32",
  U32: "u32",
};

/** A folder of `tests/goldens`: a component as it is published, with calls of the reference beside it. */
export class Golden {
  readonly #folder: string;
  /** All calls stored. */
  readonly calls: readonly GoldenCall[];
  readonly #tensors: ReadonlyMap<string, TensorEntry>;

  /**
   * Reads what is there, no tensor yet.
   *
   * @param name path below `tests/goldens`, such as `wan/umt5-tiny`
   */
  constructor(name: string) {
    this.#folder = fileURLToPath(new URL(`../goldens/${name}`, import.meta.url));
    this.calls = JSON.parse(Deno.readTextFileSync(`${this.#folder}/golden.json`)).calls;
    using file = openFile(this.#path);
    this.#tensors = readSafetensorsHeader(file, this.#path).tensors;
  }

  get #path(): string {
    return `${this.#folder}/golden.safetensors`;
  }

  /** Path of the component with its weights, without what the reference gave. */
  get folder(): string {
    return withDrawnWeights(this.#folder);
  }

  /** The call of this name. */
  call(name: string): GoldenCall {
    const call = this.calls.find((each) => each.name === name);
    if (!call) throw new RangeError(`Cannot find call "${name}" in "${this.#folder}"`);
    return call;
  }

  /** A tensor that belongs to a call. */
  tensor(call: string, name: string): Values {
    const entry = this.#tensors.get(`${call}.${name}`);
    if (!entry) throw new RangeError(`Cannot find tensor "${call}.${name}" in "${this.#folder}"`);
    const bytes = new Uint8Array(entry.byteLength);
    using file = openFile(this.#path);
    file.read(entry.byteOffset, bytes);
    return { shape: entry.shape, data: decode(bytes, entry.format) };
  }

  /** Names of all tensors that belong to a call. */
  namesOf(call: string): string[] {
    const start = `${call}.`;
    return [...this.#tensors.keys()].filter((name) => name.startsWith(start))
      .map((name) => name.slice(start.length));
  }

  /** The component's `config.json`, parsed. */
  config(path = "config.json"): unknown {
    return JSON.parse(Deno.readTextFileSync(`${this.#folder}/${path}`));
  }

  /** The component's weights; the files stay open until disposed of. */
  checkpoint(path = ""): Checkpoint {
    return Checkpoint.open(path ? `${this.folder}/${path}` : this.folder);
  }
}

function decode(bytes: Uint8Array<ArrayBuffer>, format: string): ArrayLike<number> {
  if (format === "U8" || format === "BOOL") return bytes;
  // Pixels from 0 to 1.
  if (format === "U16") return Float32Array.from(new Uint16Array(bytes.buffer), (x) => x / 65535);
  if (format === "I64") return Float64Array.from(new BigInt64Array(bytes.buffer), Number);
  const dtype = DTYPES[format];
  if (!dtype) throw new TypeError(`Cannot read a golden of type ${format}`);
  return decodeElements(bytes, dtype);
}

/** Reorders dimensions: dimension i of the result is dimension `axes[i]`. */
export function transpose({ shape, data }: Values, axes: readonly number[]): Values {
  const sizes = axes.map((axis) => shape[axis]!);
  const strides = stridesOf(shape);
  const own = stridesOf(sizes);
  const result = new Float64Array(data.length);
  for (let i = 0; i < result.length; i++) {
    let from = 0;
    axes.forEach((axis, d) => from += Math.floor(i / own[d]!) % sizes[d]! * strides[axis]!);
    result[i] = data[from]!;
  }
  return { shape: sizes, data: result };
}

/** Entries `start … end - 1` along the first axis. */
export function rowsOf({ shape, data }: Values, start: number, end: number): Values {
  const row = stridesOf(shape)[0]!;
  return {
    shape: [end - start, ...shape.slice(1)],
    data: Array.prototype.slice.call(data, start * row, end * row),
  };
}

/** Arrays one after the other along the first axis. */
export function concatRows(parts: readonly Values[]): Values {
  const rows = parts.reduce((sum, { shape }) => sum + shape[0]!, 0);
  return {
    shape: [rows, ...parts[0]!.shape.slice(1)],
    data: parts.flatMap(({ data }) => Array.from(data)),
  };
}

/** How far two arrays are apart. */
export interface Distance {
  /** Largest difference, as a part of the largest expected magnitude. */
  readonly worst: number;
  /** Where that is. */
  readonly index: readonly number[];
  /** The value there. */
  readonly actual: number;
  /** The reference's. */
  readonly expected: number;
  /** ‖actual − expected‖₂ / ‖expected‖₂. */
  readonly relativeL2: number;
}

/** Measures how far `actual` is from `expected`; a value that is no number is infinitely far. */
export function distance(actual: Values, expected: Values): Distance {
  let scale = 0;
  let norm = 0;
  let squares = 0;
  let difference = -1;
  let at = 0;
  for (let i = 0; i < expected.data.length; i++) {
    const value = expected.data[i]!;
    const error = Math.abs(actual.data[i]! - value);
    scale = Math.max(scale, Math.abs(value));
    norm += value * value;
    squares += error * error;
    if (!(error <= difference)) {
      difference = Number.isNaN(error) ? Infinity : error;
      at = i;
    }
  }
  return {
    worst: difference / scale,
    index: stridesOf(expected.shape).map((stride, axis) =>
      Math.floor(at / stride) % expected.shape[axis]!
    ),
    actual: actual.data[at]!,
    expected: expected.data[at]!,
    relativeL2: Math.sqrt(squares / norm),
  };
}

/**
 * Accepts `actual` when its largest error, as a part of the largest expected magnitude, and its relative L2 error
 * are below `gate`. Set `DENOISE_SHOW_ERRORS=1` to print the errors of what passes too.
 *
 * @throws {Error} naming the worst element, both values, and the errors relative to the gate
 */
export function assertClose(title: string, actual: Values, expected: Values, gate: number): void {
  if (!sameShape(actual.shape, expected.shape)) {
    throw new Error(
      `Cannot accept ${title}: the shape is ${formatShape(actual.shape)}, the reference has ${
        formatShape(expected.shape)
      }`,
    );
  }
  const found = distance(actual, expected);
  const report =
    `worst element at [${found.index}] is ${found.actual}, the reference has ${found.expected}: error ${
      found.worst.toExponential(2)
    } of the largest magnitude (${(found.worst / gate).toFixed(3)} of the gate), relative L2 ${
      found.relativeL2.toExponential(2)
    }, gate ${gate}`;
  if (Deno.env.get("DENOISE_SHOW_ERRORS")) console.log(`${title}: ${report}`);
  if (!(found.worst <= gate && found.relativeL2 <= gate)) {
    throw new Error(`Cannot accept ${title}: ${report}`);
  }
}
