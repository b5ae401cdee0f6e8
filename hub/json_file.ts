/**
 * JSON files of a model folder: read whole, but never without a limit, and with errors that name
 * the file and what is wrong with it.
 *
 * @module
 */

/** Any JSON value. */
type JsonValue = string | number | boolean | null | JsonValue[] | JsonObject;

/** A JSON object; a key that is not there gives `undefined`. */
export interface JsonObject {
  /** The value of a key. */
  [key: string]: JsonValue | undefined;
}

/** Limits of {@link readJsonFile}. */
interface JsonFileOptions {
  /** Largest file that is read, in bytes; 64 MiB when left out, which holds any tokenizer. */
  readonly maxBytes?: number;
}

/** Longest excerpt of a file in a message. */
const MAX_EXCERPT = 80;

const DEFAULT_MAX_BYTES = 64 * 2 ** 20;

/** How a file begins that was cloned without its large files. */
const LFS_POINTER = "version https://git-lfs.github.com/spec/";

/** Values at the end of a line that Python writes and JSON does not have; they are read as null. */
const INFINITE_VALUES = /^([ \t]*"\w+": )(?:-?Infinity|NaN)(?=,?\r?$)/gm;

/**
 * Reads a JSON file.
 *
 * @param path the file; a symbolic link is followed
 * @param options limits
 * @returns the value in it
 * @throws {Deno.errors.NotFound} when there is no such file
 * @throws {RangeError} when it is larger than allowed
 * @throws {SyntaxError} when it is not UTF-8 or not JSON
 * @throws {Error} when it is not a file or may not be read
 */
export async function readJsonFile(
  path: string,
  options: JsonFileOptions = {},
): Promise<JsonValue> {
  const maxBytes = options.maxBytes ?? DEFAULT_MAX_BYTES;
  const bytes = await readBounded(path, maxBytes);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new SyntaxError(`Cannot read ${path}: it is not UTF-8 text`, { cause });
  }
  if (text.startsWith(LFS_POINTER)) {
    throw new SyntaxError(
      `Cannot read ${path}: it is a Git LFS pointer and not the file itself; run git lfs pull`,
    );
  }
  try {
    return JSON.parse(text.replace(INFINITE_VALUES, "$1null"));
  } catch (cause) {
    // The engine's message shows some of the text, whose control characters are for no terminal.
    const reason = text.trim() === ""
      ? "it is empty"
      : (cause as SyntaxError).message.replace(/\p{Cc}+/gu, " ");
    throw new SyntaxError(`Cannot read ${path}: it is not valid JSON: ${reason}`, { cause });
  }
}

/**
 * Reads a JSON file that must hold an object, as every config file does.
 *
 * @param path the file; a symbolic link is followed
 * @param options limits
 * @returns the object in it
 * @throws {TypeError} when it holds something else; otherwise as {@link readJsonFile}
 */
export async function readJsonObject(
  path: string,
  options: JsonFileOptions = {},
): Promise<JsonObject> {
  const value = await readJsonFile(path, options);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    const kind = value === null ? "null" : Array.isArray(value) ? "an array" : `a ${typeof value}`;
    throw new TypeError(`Cannot read ${path}: it must hold a JSON object, and it holds ${kind}`);
  }
  return value;
}

/**
 * Says in words why the file system refused, for the second half of an error message.
 *
 * @param error what a call of `Deno` threw
 * @returns words that follow a colon, such as `it does not exist`
 */
export function describeFileError(error: unknown): string {
  if (error instanceof Deno.errors.NotFound) return "it does not exist";
  if (error instanceof Deno.errors.NotADirectory) return "a part of its path is not a folder";
  if (error instanceof Deno.errors.PermissionDenied) return "this user may not read it";
  if (error instanceof Deno.errors.NotCapable) return "Deno was not given leave to read it";
  if (error instanceof Deno.errors.FilesystemLoop) return "its symbolic links lead in a circle";
  return error instanceof Error ? error.message : String(error);
}

/**
 * A value of a file as an error message can hold it: as JSON, cut where it is long.
 *
 * @param value any JSON value, or undefined for one that is missing
 * @returns one line of at most 81 characters
 */
export function excerpt(value: unknown): string {
  if (value === undefined) return "missing";
  let text: string;
  try {
    text = JSON.stringify(value) ?? typeof value;
  } catch {
    // What nests deeper than the stack goes.
    return "a nested value";
  }
  return text.length > MAX_EXCERPT ? `${text.slice(0, MAX_EXCERPT)}…` : text;
}

async function readBounded(path: string, maxBytes: number): Promise<Uint8Array> {
  let bytes: Uint8Array;
  try {
    // Looked at before it is opened: opening a pipe would wait for a writer.
    const { isFile, isDirectory, size } = await Deno.stat(path);
    if (!isFile) {
      throw new Error(isDirectory ? "it is a folder" : "it is not a regular file");
    }
    checkSize(path, size, maxBytes);
    bytes = await Deno.readFile(path);
  } catch (cause) {
    if (cause instanceof RangeError) throw cause;
    const message = `Cannot read ${path}: ${describeFileError(cause)}`;
    if (cause instanceof Deno.errors.NotFound) throw new Deno.errors.NotFound(message, { cause });
    throw new Error(message, { cause });
  }
  checkSize(path, bytes.length, maxBytes);
  return bytes;
}

function checkSize(path: string, size: number, maxBytes: number): void {
  if (size > maxBytes) {
    throw new RangeError(
      `Cannot read ${path}: it has ${size} bytes, and at most ${maxBytes} are allowed`,
    );
  }
}
