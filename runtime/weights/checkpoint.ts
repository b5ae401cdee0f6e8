import { readJsonFileSync } from "../../hub/json_file.ts";
import { readFully, type TensorEntry } from "./container.ts";
import { GGUF_MAGIC, type GgufHeader, readGgufHeader } from "./gguf.ts";
import { readGgufArray } from "./gguf_array.ts";
import type { GgufArray, GgufValue } from "./gguf_types.ts";
import { readSafetensorsHeader } from "./safetensors.ts";
import { type Quantization, readQuantization } from "./quantization_config.ts";
import { readScaled } from "./scale_grid.ts";
import { applyScales, type ScaledTensor } from "./scales.ts";
import { storedBytes, type StoredTensor, type TensorSource } from "./tensor_source.ts";

/** Names under which diffusers and transformers save the weights of a component, most specific first. */
const BASENAMES = ["diffusion_pytorch_model", "model"] as const;

/** Far more than the index of any model has. */
const MAX_INDEX_BYTES = 16 * 1024 * 1024;

/** Far more than any component's configuration has. */
const MAX_CONFIG_BYTES = 2 ** 20;

/** The name of a file beside the index: no separators, no drive, no control characters. */
// deno-lint-ignore no-control-regex
const SHARD_NAME = /^[^/\\:\x00-\x1f]{1,200}\.safetensors$/;

interface OpenFile {
  readonly path: string;
  readonly file: Deno.FsFile;
}

/** A file, and which of its tensors count where an index says so. */
interface WeightFile {
  readonly path: string;
  readonly expected?: readonly string[];
}

/** A tensor and the file that it lies in. */
interface FileTensor extends TensorEntry, ScaledTensor {
  readonly source: OpenFile;
}

/** The tensors of a file (safetensors or GGUF), or of a component's folder (safetensors). Files stay open. */
export class Checkpoint implements TensorSource, Disposable {
  /** The path as given. */
  readonly path: string;
  /** What the file says beside tensors, as far as it is short; nothing of a folder. */
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly #arrays: ReadonlyMap<string, GgufArray>;
  readonly #tensors: ReadonlyMap<string, FileTensor>;
  readonly #files: OpenFile[];

  private constructor(
    path: string,
    { metadata, arrays }: Omit<Header, "tensors">,
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
   * scales of fp8 weights.
   *
   * @throws {SyntaxError} when a file is missing, damaged, or does not hold what the index says
   */
  static open(path: string): Checkpoint {
    const files: OpenFile[] = [];
    try {
      const tensors = new Map<string, FileTensor>();
      let said: Omit<Header, "tensors"> = { metadata: new Map(), arrays: new Map() };
      const listed: WeightFile[] = isFile(path) ? [{ path }] : listFiles(path);
      for (const { path: filePath, expected } of listed) {
        const source = { path: filePath, file: openFile(filePath) };
        files.push(source);
        const header = readHeader(source);
        if (listed.length === 1) said = header;
        for (const name of expected ?? header.tensors.keys()) {
          const entry = header.tensors.get(name);
          if (!entry) {
            throw new SyntaxError(
              `Cannot read "${filePath}": the index says it holds tensor "${name}", it does not; ` +
                "fetch both again",
            );
          }
          tensors.set(name, { ...entry, source });
        }
      }
      const quantization = quantizationOf(path, said);
      const scaled = applyScales(tensors, { path, quantization, read: readWhole });
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
    const { source, byteOffset, storedAs, grid } = found;
    const readStored = (from: number, bytes: Uint8Array) =>
      readFully(source.file, byteOffset + from, bytes);
    try {
      if (grid && storedAs) readScaled({ ...found, storedAs, grid }, start, target, readStored);
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

/** What a file of any container says. */
type Header = GgufHeader;

/** Reads what a file says of its tensors; its first bytes tell which container it is. */
function readHeader({ file, path }: OpenFile): Header {
  const head = new Uint8Array(Math.min(4, file.statSync().size));
  readFully(file, 0, head);
  const magic = head.byteLength === 4 ? new DataView(head.buffer).getUint32(0, true) : 0;
  if (magic === GGUF_MAGIC) return readGgufHeader(file, path);
  const { tensors, metadata } = readSafetensorsHeader(file, path, "safetensors or GGUF");
  return { tensors, metadata: new Map(Object.entries(metadata)), arrays: new Map() };
}

/** What the header of the only file, or the configuration in a component's folder, says. */
function quantizationOf(
  path: string,
  { metadata }: Omit<Header, "tensors">,
): Quantization | undefined {
  const config = `${path}/config.json`;
  const told = readQuantization(Object.fromEntries(metadata), path);
  if (!isFile(config)) return told;
  const json = readJsonFileSync(config, { maxBytes: MAX_CONFIG_BYTES });
  return isRecord(json) ? readQuantization(json, config) ?? told : told;
}

function readWhole({ source, byteOffset, byteLength }: FileTensor): Uint8Array {
  const bytes = new Uint8Array(byteLength);
  readFully(source.file, byteOffset, bytes);
  return bytes;
}

function openFile(path: string): Deno.FsFile {
  try {
    return Deno.openSync(path, { read: true });
  } catch (error) {
    const reason = error instanceof Deno.errors.NotFound
      ? "it does not exist; the download may be incomplete, fetch it again"
      : (error as Error).message;
    throw new SyntaxError(`Cannot open weights "${path}": ${reason}`, { cause: error });
  }
}

function listFiles(folder: string): WeightFile[] {
  for (const base of BASENAMES) {
    const index = `${folder}/${base}.safetensors.index.json`;
    if (isFile(index)) return listShards(folder, index);
    const single = `${folder}/${base}.safetensors`;
    if (isFile(single)) return [{ path: single }];
  }
  throw new SyntaxError(
    `Cannot find weights in "${folder}": it has neither ${
      BASENAMES.map((base) => `${base}.safetensors`).join(" nor ")
    }, nor an index of one; other formats are not read, fetch the model as safetensors`,
  );
}

function listShards(folder: string, index: string): WeightFile[] {
  const json = readJsonFileSync(index, { maxBytes: MAX_INDEX_BYTES });
  const weightMap = isRecord(json) ? json["weight_map"] : undefined;
  if (!isRecord(weightMap) || Object.keys(weightMap).length === 0) {
    throw new SyntaxError(`Cannot read "${index}": it has no "weight_map"; fetch it again`);
  }
  const byFile = new Map<string, string[]>();
  for (const [name, file] of Object.entries(weightMap)) {
    if (typeof file !== "string" || !SHARD_NAME.test(file)) {
      throw new SyntaxError(
        `Cannot read "${index}": tensor "${name.slice(0, 200)}" lies in ${
          typeof file === "string" ? JSON.stringify(file.slice(0, 200)) : "no text"
        }, which is no file of the folder`,
      );
    }
    const names = byFile.get(file);
    if (names) names.push(name);
    else byFile.set(file, [name]);
  }
  return [...byFile].map(([file, expected]) => ({ path: `${folder}/${file}`, expected }));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}
