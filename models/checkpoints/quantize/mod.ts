/** A copy of a checkpoint in fewer bits, made piece by piece. */
import { mkdirSync, realpathSync } from "node:fs";
import { dirname } from "node:path";
import {
  blockBytes,
  blockFormatOf,
  bytesPerElement,
  Checkpoint,
  elementCount,
  elementTypeOf,
  type FileLayout,
  layOutGguf,
  layOutSafetensors,
  type NewTensor,
} from "../../../runtime/mod.ts";
import { F8_E4M3_MAX, F8_E5M2_MAX } from "../../../runtime/quantization/encode/fp8.ts";
import { configMetadata } from "../saved_config.ts";
import { convert, valuesOf } from "./convert.ts";
import { ConvertPool } from "./convert_pool.ts";
import { type PlannedTensor, planTensors } from "./plan.ts";
import { type Container, containersOf, type QuantizedType, type TypeRule } from "./types.ts";

export type { QuantizedType, TypeRule } from "./types.ts";

/** Elements that are read at a time: whole blocks of every format. */
const CHUNK_ELEMENTS = 2 ** 18;
/** What an element that is only copied takes of the time of one that is encoded, about. */
const COPY_SHARE = 0.02;

/** How a copy is made. */
export interface QuantizeOptions {
  readonly type: QuantizedType;
  /** Other types for some tensors; the first whose pattern fits counts. */
  readonly rules?: readonly TypeRule[];
  /** Called often. */
  readonly onProgress?: (progress: QuantizeProgress) => void;
  readonly signal?: AbortSignal;
}

/** How far a copy is. */
export interface QuantizeProgress {
  /** Share of the work that is done, 0 to 1. */
  readonly fraction: number;
  /** The tensor at hand. */
  readonly tensor: string;
}

/** What was made. */
export interface QuantizeResult {
  /** Of the new file. */
  readonly bytes: number;
  /** Of the tensors that it was made from. */
  readonly sourceBytes: number;
  /** Tensors by format, most elements first. */
  readonly formats: readonly (readonly [format: string, tensors: number])[];
}

/** One tensor of the file: made from a tensor of the source, or of bytes. */
type FileTensor = NewTensor & ({ readonly planned: PlannedTensor } | { readonly scaleOf?: string });

/**
 * Writes a copy. The file has its name once it is whole.
 *
 * @param path a file of weights, or a component's folder
 * @param output ends with `.gguf` or `.safetensors`
 * @throws {TypeError} when the file cannot hold the type, or what is read is GGUF
 * @throws {Error} when reading or writing fails
 */
export async function quantizeCheckpoint(
  path: string,
  output: string,
  options: QuantizeOptions,
): Promise<QuantizeResult> {
  const { type, rules = [], signal } = options;
  const container = containerOf(output, [type, ...rules.map((rule) => rule.type)]);
  using source = Checkpoint.open(path);
  checkSource(source, output);
  const planned = planTensors(source, type, container, rules);
  const tensors = container === "gguf" ? planned.map(toFileTensor) : withScales(planned);
  const saved = await configMetadata(path);
  const layout = container === "gguf"
    ? layOutGguf(tensors, { "general.quantization_version": 2, ...saved })
    : layOutSafetensors(tensors, { format: "pt", ...saved });
  const partial = `${output}.part`;
  mkdirSync(dirname(output), { recursive: true });
  try {
    using file = Deno.openSync(partial, { write: true, create: true, truncate: true });
    using writer = new CopyWriter(source, file, options);
    await writer.write(tensors, layout);
    file.syncSync();
  } catch (error) {
    await Deno.remove(partial).catch(() => {});
    throw error;
  }
  signal?.throwIfAborted();
  await Deno.rename(partial, output);
  return {
    bytes: layout.fileBytes,
    sourceBytes: source.byteLength,
    formats: formatsOf(planned),
  };
}

function containerOf(output: string, types: readonly QuantizedType[]): Container {
  const container = /\.gguf$/i.test(output)
    ? "gguf"
    : /\.safetensors$/i.test(output)
    ? "safetensors"
    : undefined;
  const misfit = types.find((type) => !container || !containersOf(type).includes(container));
  if (container && misfit === undefined) return container;
  const endings = containersOf(misfit ?? types[0]!).map((name) => `.${name}`).join(" or ");
  throw new TypeError(
    `Cannot write ${misfit ?? types[0]} into "${output}": give a name that ends with ${endings}`,
  );
}

function checkSource(source: Checkpoint, output: string): void {
  const { path } = source;
  if (/\.gguf$/i.test(path)) {
    throw new TypeError(
      `Cannot quantize "${path}": it is a GGUF file; give the safetensors that it was made from`,
    );
  }
  const isSame = (a: string, b: string) => {
    try {
      return realpathSync(a) === realpathSync(b);
    } catch {
      return false;
    }
  };
  if (isSame(path, output)) {
    throw new TypeError(
      `Cannot write "${output}": it is the file that is read; choose another name`,
    );
  }
}

function toFileTensor(planned: PlannedTensor): FileTensor {
  return { ...planned, planned };
}

/** With the scales of fp8 weights and the mark of files that have them, as ComfyUI writes them. */
function withScales(planned: readonly PlannedTensor[]): FileTensor[] {
  const marked = planned.find(({ format }) => format.startsWith("F8_"));
  if (!marked) return planned.map(toFileTensor);
  const prefix = /^model\.diffusion_model\./.exec(marked.name)?.[0] ?? "";
  return [
    ...planned.flatMap((tensor): FileTensor[] => {
      const own = toFileTensor(tensor);
      if (!tensor.format.startsWith("F8_")) return [own];
      const name = tensor.name.replace(/weight$/, "scale_weight");
      return [own, { name, format: "F32", shape: [], scaleOf: tensor.name }];
    }),
    { name: `${prefix}scaled_fp8`, format: marked.format, shape: [0] },
  ];
}

function formatsOf(planned: readonly PlannedTensor[]): (readonly [string, number])[] {
  const groups = Map.groupBy(planned, ({ format }) => format);
  const elements = (tensors: readonly PlannedTensor[]) =>
    tensors.reduce((sum, { shape }) => sum + elementCount(shape), 0);
  return [...groups].sort(([, a], [, b]) => elements(b) - elements(a))
    .map(([format, tensors]) => [format, tensors.length]);
}

/** Fills a file. */
class CopyWriter implements Disposable {
  readonly #source: Checkpoint;
  readonly #file: Deno.FsFile;
  readonly #options: QuantizeOptions;
  readonly #pool = new ConvertPool();
  readonly #scales = new Map<string, number>();
  /** Pieces that are being converted or written. */
  readonly #open = new Set<Promise<void>>();
  #failure: unknown;
  #done = 0;
  #total = 1;

  constructor(source: Checkpoint, file: Deno.FsFile, options: QuantizeOptions) {
    this.#source = source;
    this.#file = file;
    this.#options = options;
  }

  async write(tensors: readonly FileTensor[], layout: FileLayout): Promise<void> {
    this.#put(layout.header, 0);
    this.#file.truncateSync(layout.fileBytes);
    this.#total = tensors.reduce((sum, tensor) => sum + workOf(tensor), 1);
    for (const [i, tensor] of tensors.entries()) {
      const at = layout.byteOffsets[i]!;
      if ("planned" in tensor) await this.#copy(tensor.planned, at);
      else if (tensor.scaleOf !== undefined) {
        const scale = Float32Array.of(this.#scales.get(tensor.scaleOf) ?? 1);
        this.#put(new Uint8Array(scale.buffer), at);
      }
    }
    await Promise.all(this.#open);
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Ends the threads. */
  [Symbol.dispose](): void {
    this.#pool[Symbol.dispose]();
  }

  async #copy(tensor: PlannedTensor, at: number): Promise<void> {
    const { name, source, format, shape } = tensor;
    const count = elementCount(shape);
    const isEncoded = blockFormatOf(format) !== undefined;
    const newScale = format.startsWith("F8_") ? this.#fp8Scale(tensor) : 1;
    const scale = source.scale ?? 1;
    for (let start = 0; start < count; start += CHUNK_ELEMENTS) {
      this.#check();
      const length = Math.min(CHUNK_ELEMENTS, count - start);
      const bytes = this.#read(tensor, start, length);
      const place = at + bytesOf(start, format, tensor);
      const progress = () => this.#progress(length * (isEncoded ? 1 : COPY_SHARE), name);
      const conversion = { name, bytes, from: source.format, scale, to: format, newScale };
      if (!isEncoded) {
        this.#put(source.format === format ? bytes : convert(conversion), place);
        progress();
        // Signals and timers have their turn.
        if (start % (16 * CHUNK_ELEMENTS) === 0) {
          await new Promise((resolve) => setTimeout(resolve));
        }
        continue;
      }
      const { done } = await this.#pool.start(conversion);
      const piece = done.then((encoded) => {
        this.#put(encoded, place);
        progress();
      }).catch((error) => void (this.#failure ??= error)).finally(() => this.#open.delete(piece));
      this.#open.add(piece);
    }
  }

  /** The scale that brings the largest element to the largest number of the format. */
  #fp8Scale(tensor: PlannedTensor): number {
    const { name, source, shape, format } = tensor;
    const count = elementCount(shape);
    let largest = 0;
    for (let start = 0; start < count; start += CHUNK_ELEMENTS) {
      const bytes = this.#read(tensor, start, Math.min(CHUNK_ELEMENTS, count - start));
      const values = valuesOf({ name, bytes, from: source.format, scale: source.scale ?? 1 });
      for (let i = 0; i < values.length; i++) {
        const size = Math.abs(values[i]!);
        if (size > largest) largest = size;
      }
    }
    const limit = format === "F8_E4M3" ? F8_E4M3_MAX : F8_E5M2_MAX;
    const scale = Math.fround(largest / limit) || 1;
    this.#scales.set(name, scale);
    return scale;
  }

  #read({ name, source }: PlannedTensor, start: number, length: number): Uint8Array<ArrayBuffer> {
    const from = bytesOf(start, source.format, { source });
    const bytes = new Uint8Array(bytesOf(start + length, source.format, { source }) - from);
    this.#source.read(name, from, bytes);
    return bytes;
  }

  #put(bytes: Uint8Array, at: number): void {
    this.#file.seekSync(at, Deno.SeekMode.Start);
    for (let done = 0; done < bytes.byteLength;) done += this.#file.writeSync(bytes.subarray(done));
  }

  #check(): void {
    this.#options.signal?.throwIfAborted();
    if (this.#failure !== undefined) throw this.#failure;
  }

  #progress(work: number, tensor: string): void {
    this.#done += work;
    this.#options.onProgress?.({ fraction: Math.min(1, this.#done / this.#total), tensor });
  }
}

function workOf(tensor: FileTensor): number {
  return elementCount(tensor.shape) * (blockFormatOf(tensor.format) === undefined ? COPY_SHARE : 1);
}

/** Bytes of so many elements. */
function bytesOf(
  elements: number,
  format: string,
  { source }: Pick<PlannedTensor, "source">,
): number {
  const blocks = blockFormatOf(format);
  if (blocks) return blockBytes([elements], blocks);
  const dtype = elementTypeOf(format);
  if (dtype) return elements * bytesPerElement(dtype);
  // A type that is only copied.
  return elements === 0 ? 0 : elements * source.byteLength / elementCount(source.shape);
}
