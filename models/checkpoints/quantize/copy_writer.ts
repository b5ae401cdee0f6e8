/** Fills a file with a copy of tensors, converted piece by piece. */
import {
  blockBytes,
  blockFormatOf,
  bytesPerElement,
  type Checkpoint,
  elementCount,
  elementTypeOf,
  type FileLayout,
  type NewTensor,
  type Shape,
} from "../../../runtime/mod.ts";
import { F8_E4M3_MAX, F8_E5M2_MAX } from "../../../runtime/quantization/encode/fp8.ts";
import { type Conversion, convert, NonFiniteError, valuesOf } from "./convert.ts";
import type { PlannedTensor } from "./plan.ts";
import type { ConversionAnswer } from "./quantize_worker.ts";

/** Elements that are read at a time: whole blocks of every format. */
const CHUNK_ELEMENTS = 2 ** 18;
/** What an element that is only copied takes of the time of one that is encoded, about. */
const COPY_SHARE = 0.02;

export interface CopyControl {
  readonly onProgress?: (progress: QuantizeProgress) => void;
  readonly signal?: AbortSignal;
}

export interface QuantizeProgress {
  /** Share of the work that is done, 0 to 1. */
  readonly fraction: number;
  readonly tensor: string;
}

export type FileTensor =
  & NewTensor
  & ({ readonly planned: PlannedTensor } | { readonly scaleOf?: string });

export class CopyWriter implements Disposable {
  readonly #source: Checkpoint;
  readonly #file: Deno.FsFile;
  readonly #control: CopyControl;
  readonly #pool = new ConvertPool();
  /** Of the tensors that get a scale, by name; 1 until it is known. */
  readonly #scales = new Map<string, number>();
  readonly #open = new Set<Promise<void>>();
  /** Names of vectors that hold NaN or infinity, which were copied as they are. */
  readonly nonFinite = new Set<string>();
  #failure: unknown;
  #done = 0;
  #total = 1;

  constructor(source: Checkpoint, file: Deno.FsFile, control: CopyControl) {
    this.#source = source;
    this.#file = file;
    this.#control = control;
  }

  async write(tensors: readonly FileTensor[], layout: FileLayout): Promise<void> {
    this.#put(layout.header, 0);
    this.#file.truncateSync(layout.fileBytes);
    this.#total = tensors.reduce((sum, tensor) => sum + workOf(tensor), 1);
    for (const tensor of tensors) {
      if ("scaleOf" in tensor && tensor.scaleOf !== undefined) this.#scales.set(tensor.scaleOf, 1);
    }
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

  [Symbol.dispose](): void {
    this.#pool[Symbol.dispose]();
  }

  async #copy(tensor: PlannedTensor, at: number): Promise<void> {
    const { name, source, format, shape } = tensor;
    const count = elementCount(shape);
    const isEncoded = blockFormatOf(format) !== undefined;
    const newScale = this.#scales.has(name) ? this.#fp8Scale(tensor) : 1;
    const scale = source.scale ?? 1;
    for (let start = 0; start < count; start += CHUNK_ELEMENTS) {
      this.#check();
      const length = Math.min(CHUNK_ELEMENTS, count - start);
      const bytes = this.#read(tensor, start, length);
      const place = at + bytesOf(start, format, tensor);
      const progress = () => this.#progress(length * (isEncoded ? 1 : COPY_SHARE), name);
      const conversion = { name, bytes, from: source.format, scale, to: format, newScale };
      if (!isEncoded) {
        this.#put(source.format === format ? bytes : this.#convertRest(conversion, shape), place);
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

  /** What is no matrix may hold NaN: many checkpoints have norms that their model does not use. */
  #convertRest(conversion: Conversion, shape: Shape): Uint8Array {
    try {
      return convert(conversion);
    } catch (error) {
      if (!(error instanceof NonFiniteError) || shape.length > 1) throw error;
      this.nonFinite.add(conversion.name);
      return convert({ ...conversion, takesNonFinite: true });
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
    this.#control.signal?.throwIfAborted();
    if (this.#failure !== undefined) throw this.#failure;
  }

  #progress(work: number, tensor: string): void {
    this.#done += work;
    this.#control.onProgress?.({ fraction: Math.min(1, this.#done / this.#total), tensor });
  }
}

function workOf(tensor: FileTensor): number {
  return elementCount(tensor.shape) * (blockFormatOf(tensor.format) === undefined ? COPY_SHARE : 1);
}

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

/** More threads would wait for the disk. */
const MAX_THREADS = 16;

export class ConvertPool implements Disposable {
  readonly #idle: Worker[];
  readonly #all: readonly Worker[];
  readonly #waiting: ((worker: Worker) => void)[] = [];

  constructor(threads = Math.min(MAX_THREADS, navigator.hardwareConcurrency)) {
    this.#all = Array.from(
      { length: threads },
      () => new Worker(new URL("./quantize_worker.ts", import.meta.url), { type: "module" }),
    );
    this.#idle = [...this.#all];
  }

  /** Waits until a thread is idle, and has it convert; its bytes are gone from the caller. */
  async start(
    conversion: Conversion,
  ): Promise<{ readonly done: Promise<Uint8Array<ArrayBuffer>> }> {
    const worker = this.#idle.pop() ??
      await new Promise<Worker>((resolve) => this.#waiting.push(resolve));
    return { done: this.#run(worker, conversion) };
  }

  [Symbol.dispose](): void {
    for (const worker of this.#all) worker.terminate();
  }

  #run(worker: Worker, conversion: Conversion): Promise<Uint8Array<ArrayBuffer>> {
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
    worker.onmessage = ({ data }: MessageEvent<ConversionAnswer>) => {
      const next = this.#waiting.shift();
      if (next) next(worker);
      else this.#idle.push(worker);
      if ("bytes" in data) resolve(data.bytes);
      else reject(new RangeError(data.problem));
    };
    worker.onerror = (event) => {
      event.preventDefault();
      reject(new Error(`Cannot convert tensor "${conversion.name}": ${event.message}`));
    };
    worker.postMessage(conversion, [conversion.bytes.buffer]);
    return promise;
  }
}
