import { readFully, readSafetensorsHeader, type TensorEntry } from "./safetensors.ts";

/** Names under which diffusers and transformers save the weights of a component, most specific first. */
const BASENAMES = ["diffusion_pytorch_model", "model"] as const;

/** Far more than the index of any model has. */
const MAX_INDEX_BYTES = 16 * 1024 * 1024;

/** The name of a file beside the index: no separators, no drive, no control characters. */
// deno-lint-ignore no-control-regex
const SHARD_NAME = /^[^/\\:\x00-\x1f]{1,200}\.safetensors$/;

interface OpenFile {
  readonly path: string;
  readonly file: Deno.FsFile;
}

/** The weights of one component on disk: one safetensors file, or several with an index. Files stay open. */
export class Checkpoint implements Disposable {
  /** Path as given. */
  readonly folder: string;
  readonly #entries: ReadonlyMap<string, { entry: TensorEntry; source: OpenFile }>;
  readonly #files: OpenFile[];

  private constructor(
    folder: string,
    entries: ReadonlyMap<string, { entry: TensorEntry; source: OpenFile }>,
    files: OpenFile[],
  ) {
    this.folder = folder;
    this.#entries = entries;
    this.#files = files;
  }

  /**
   * Opens the weights in a component's folder and checks every header. Tensor data is not read.
   *
   * @throws {SyntaxError} when a file is missing, damaged, or does not hold what the index says
   */
  static open(folder: string): Checkpoint {
    const files: OpenFile[] = [];
    try {
      const entries = new Map<string, { entry: TensorEntry; source: OpenFile }>();
      for (const { path, expected } of listFiles(folder)) {
        const source = { path, file: openFile(path) };
        files.push(source);
        const { tensors } = readSafetensorsHeader(source.file, path);
        for (const name of expected ?? tensors.keys()) {
          const entry = tensors.get(name);
          if (!entry) {
            throw new SyntaxError(
              `Cannot read "${path}": the index says it holds tensor "${name}", it does not; ` +
                "fetch both again",
            );
          }
          entries.set(name, { entry, source });
        }
      }
      return new Checkpoint(folder, entries, files);
    } catch (error) {
      for (const { file } of files) file.close();
      throw error;
    }
  }

  /** Names of all tensors. */
  get names(): IterableIterator<string> {
    return this.#entries.keys();
  }

  /** Size on disk of all tensors, in bytes. */
  get byteLength(): number {
    return this.#entries.values().reduce((sum, { entry }) => sum + entry.byteLength, 0);
  }

  /** What the header says of a tensor, or nothing. */
  find(name: string): TensorEntry | undefined {
    return this.#entries.get(name)?.entry;
  }

  /** Reads `target.byteLength` bytes of a tensor's data, from its byte `start` on. */
  read(name: string, start: number, target: Uint8Array): void {
    const found = this.#entries.get(name);
    if (!found || start + target.byteLength > found.entry.byteLength) {
      throw new RangeError(
        `Cannot read ${target.byteLength} bytes at ${start} of tensor "${name}" in "${this.folder}"`,
      );
    }
    readFully(found.source.file, found.entry.byteOffset + start, target);
  }

  /** Closes the files; further calls do nothing. */
  [Symbol.dispose](): void {
    for (const { file } of this.#files.splice(0)) file.close();
  }
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

function listFiles(folder: string): { path: string; expected?: string[] }[] {
  for (const base of BASENAMES) {
    const index = `${folder}/${base}.safetensors.index.json`;
    if (exists(index)) return listShards(folder, index);
    const single = `${folder}/${base}.safetensors`;
    if (exists(single)) return [{ path: single }];
  }
  throw new SyntaxError(
    `Cannot find weights in "${folder}": it has neither ${
      BASENAMES.map((base) => `${base}.safetensors`).join(" nor ")
    }, nor an index of one; other formats are not read, fetch the model as safetensors`,
  );
}

function listShards(folder: string, index: string): { path: string; expected: string[] }[] {
  let json: unknown;
  try {
    const { size } = Deno.statSync(index);
    if (size > MAX_INDEX_BYTES) {
      throw new RangeError(`it has ${size} bytes, the limit is ${MAX_INDEX_BYTES}`);
    }
    json = JSON.parse(Deno.readTextFileSync(index));
  } catch (error) {
    throw new SyntaxError(`Cannot read "${index}": ${(error as Error).message}; fetch it again`, {
      cause: error,
    });
  }
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

function exists(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}
