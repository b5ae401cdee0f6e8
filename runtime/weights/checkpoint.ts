import { type FileSource, isFileSync, NotFoundError, openFile } from "../../platform/mod.ts";
import { isObject, readJsonFileSync } from "../../hub/json_file.ts";
import {
  storedBytes,
  type StoredTensor,
  type TensorEntry,
  type TensorSource,
} from "./container.ts";
import { readFileHeader } from "./file_header.ts";
import type { GgufHeader } from "./gguf.ts";
import { readGgufArray } from "./gguf_reader.ts";
import type { GgufArray, GgufValue } from "./gguf_types.ts";
import { type Quantization, readLayerFormats, readQuantization } from "./quantization_config.ts";
import { readDecoded } from "./range_decoder.ts";
import { applyScales, type ScaledTensor } from "./scales.ts";
import { readStrided } from "./strided.ts";
import { listWeightFiles } from "./weight_files.ts";

/** Far more than any component's configuration has. */
const MAX_CONFIG_BYTES = 2 ** 20;

/** What PyTorch puts into names of modules that were saved while they were compiled or wrapped. */
const WRAPPERS = /\b(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\./g;

interface OpenFile {
  readonly path: string;
  readonly file: FileSource;
}

interface FileTensor extends TensorEntry, ScaledTensor {
  readonly source: OpenFile;
}

const NOTHING: Omit<GgufHeader, "tensors"> = { metadata: new Map(), arrays: new Map() };

/**
 * The tensors of a file (safetensors, GGUF or a pickle of PyTorch), with the other parts of it where it is one of several, or
 * of a component's folder (safetensors or pickles). Files stay open. Nothing that a pickle holds is run.
 */
export class Checkpoint implements TensorSource, Disposable {
  /** The path as given. */
  readonly path: string;
  /** What the file, or the first of its parts, says beside tensors, as far as it is short; nothing of a folder. */
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly #arrays: ReadonlyMap<string, GgufArray>;
  readonly #tensors: ReadonlyMap<string, FileTensor>;
  readonly #files: OpenFile[];

  private constructor(
    path: string,
    { metadata, arrays }: Omit<GgufHeader, "tensors">,
    tensors: ReadonlyMap<string, FileTensor>,
    files: OpenFile[],
  ) {
    this.path = path;
    this.metadata = metadata;
    this.#arrays = arrays;
    this.#tensors = tensors;
    this.#files = files;
  }

  /**
   * Opens a file, or the weights in a component's folder, and checks every header. Tensor data is not read, but for the
   * scales of weights.
   *
   * @throws {SyntaxError} when a file is missing, damaged, or does not hold what the index says
   */
  static open(path: string): Checkpoint {
    const files: OpenFile[] = [];
    try {
      const tensors = new Map<string, FileTensor>();
      const listed = listWeightFiles(path);
      const headers = listed.map(({ path: filePath, expected }) => {
        const source = { path: filePath, file: openWeights(filePath) };
        files.push(source);
        const header = readFileHeader(source.file, filePath);
        checkSplit(header, filePath, listed.length);
        for (const name of expected ?? header.tensors.keys()) {
          const entry = header.tensors.get(name);
          if (!entry) {
            throw new SyntaxError(
              `Cannot read "${filePath}": the index says it holds tensor "${name}", it does not; ` +
                "fetch both again",
            );
          }
          const own = name.replaceAll(WRAPPERS, "");
          if (tensors.has(own)) {
            throw new SyntaxError(
              `Cannot read "${filePath}": another tensor is called "${own}", too; fetch it again, with all parts`,
            );
          }
          tensors.set(own, { ...entry, name: own, source });
        }
        return header;
      });
      const said = isFileSync(path) ? headers[0]! : NOTHING;
      const quantization = quantizationOf(path, headers);
      const layers = headers.flatMap(({ metadata }) =>
        readLayerFormats(Object.fromEntries(metadata), path)
      );
      const scaled = applyScales(tensors, { path, quantization, layers, read: readWhole });
      return new Checkpoint(path, said, scaled, files);
    } catch (error) {
      for (const { file } of files) file.close();
      throw error;
    }
  }

  /** Names of all tensors. */
  get names(): IterableIterator<string> {
    return this.#tensors.keys();
  }

  /** Size on disk of all tensors, in bytes. */
  get byteLength(): number {
    return this.#tensors.values().reduce((sum, tensor) => sum + storedBytes(tensor), 0);
  }

  /** What the header says of a tensor, or nothing. */
  find(name: string): StoredTensor | undefined {
    return this.#tensors.get(name);
  }

  /** See {@linkcode TensorSource.read}. */
  read(name: string, start: number, target: Uint8Array): void {
    const found = this.#tensors.get(name);
    if (!found || !(start >= 0) || start + target.byteLength > found.byteLength) {
      throw new RangeError(
        `Cannot read ${target.byteLength} bytes at ${start} of tensor "${name}" in "${this.path}"`,
      );
    }
    const { format, decoder, source } = found;
    const readStored = (from: number, bytes: Uint8Array) => readRange(found, from, bytes);
    try {
      if (decoder) readDecoded(format, decoder, start, target, readStored);
      else readStored(start, target);
    } catch (cause) {
      throw new SyntaxError(
        `Cannot read tensor "${name}" from "${source.path}": ${(cause as Error).message}; ` +
          "the file has changed since it was opened, fetch it again and load the model anew",
        { cause },
      );
    }
  }

  /**
   * An array of the metadata of a GGUF file, or nothing.
   *
   * @throws {SyntaxError} when it is too long, or the file is no longer as it was
   */
  readArray(key: string): string[] | ArrayLike<number> | undefined {
    const array = this.#arrays.get(key);
    const [source] = this.#files;
    return array && source && readGgufArray(source.file, array, source.path);
  }

  /** Closes the files; further calls do nothing. */
  [Symbol.dispose](): void {
    for (const { file } of this.#files.splice(0)) file.close();
  }
}

/** What the headers, and the configuration in a component's folder, say. */
function quantizationOf(path: string, headers: readonly GgufHeader[]): Quantization | undefined {
  const told = headers.map(({ metadata }) => readQuantization(Object.fromEntries(metadata), path))
    .find((quantization) => quantization !== undefined);
  const config = `${path}/config.json`;
  if (!isFileSync(config)) return told;
  const json = readJsonFileSync(config, { maxBytes: MAX_CONFIG_BYTES });
  return isObject(json) ? readQuantization(json, config) ?? told : told;
}

/** Refuses a part of a split GGUF file whose other parts are not known by its name. */
function checkSplit({ metadata }: GgufHeader, path: string, parts: number): void {
  const count = metadata.get("split.count");
  if (typeof count !== "number" || !(count > 1) || count === parts) return;
  throw new SyntaxError(
    `Cannot read "${path}": it is part ${
      Number(metadata.get("split.no") ?? 0) + 1
    } of ${count}; put all parts into one folder under the names NAME-00001-of-${
      String(count).padStart(5, "0")
    }.gguf and so on, and name one of them`,
  );
}

function readWhole(tensor: FileTensor): Uint8Array {
  const bytes = new Uint8Array(tensor.byteLength);
  readRange(tensor, 0, bytes);
  return bytes;
}

/** Bytes of a tensor as the file has them, but for the order of what is not dense. */
function readRange(tensor: FileTensor, start: number, target: Uint8Array): void {
  const { source, byteOffset, strides } = tensor;
  const readAt = (from: number, bytes: Uint8Array) => source.file.read(byteOffset + from, bytes);
  if (strides) readStrided({ ...tensor, strides }, start, target, readAt);
  else readAt(start, target);
}

function openWeights(path: string): FileSource {
  try {
    return openFile(path);
  } catch (error) {
    const reason = error instanceof NotFoundError
      ? "it does not exist; the download may be incomplete, fetch it again"
      : (error as Error).message;
    throw new SyntaxError(`Cannot open weights "${path}": ${reason}`, { cause: error });
  }
}
