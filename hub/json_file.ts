/** JSON files of a model folder: read whole within a limit, with errors that name the file. */

import {
  describeFileError,
  type FileInfo,
  fileInfo,
  fileInfoSync,
  NotFoundError,
  readFile,
  readFileSync,
} from "../platform/mod.ts";
import { FIRST_BYTES, foreignFile } from "./first_bytes.ts";

type JsonValue = string | number | boolean | null | JsonValue[] | JsonObject;

/** A JSON object; a key that is not there gives `undefined`. */
export interface JsonObject {
  [key: string]: JsonValue | undefined;
}

/** Whether a value is an object with keys: neither null nor a list. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

interface JsonFileOptions {
  /** Largest file that is read, in bytes; 64 MiB by default, which holds any tokenizer. */
  readonly maxBytes?: number;
}

const MAX_EXCERPT = 80;

const DEFAULT_MAX_BYTES = 64 * 2 ** 20;

/** Values at the end of a line that Python writes and JSON does not have; they are read as null. */
const INFINITE_VALUES = /^([ \t]*"\w+": )(?:-?Infinity|NaN)(?=,?\r?$)/gm;

export async function readJsonFile(
  path: string,
  { maxBytes = DEFAULT_MAX_BYTES }: JsonFileOptions = {},
): Promise<JsonValue> {
  return parse(path, await readBounded(path, maxBytes));
}

/** As {@link readJsonFile}, in the calling thread. */
export function readJsonFileSync(
  path: string,
  { maxBytes = DEFAULT_MAX_BYTES }: JsonFileOptions = {},
): JsonValue {
  try {
    checkInfo(path, fileInfoSync(path), maxBytes);
    return parse(path, readFileSync(path));
  } catch (error) {
    throw readError(path, error);
  }
}

function parse(path: string, bytes: Uint8Array): JsonValue {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    const what = foreignFile(bytes.subarray(0, FIRST_BYTES), "JSON") ?? "it is not UTF-8 text";
    throw new SyntaxError(`Cannot read ${path}: ${what}`, { cause });
  }
  try {
    return JSON.parse(text.replace(INFINITE_VALUES, "$1null"));
  } catch (cause) {
    const isBroken = /^\s*[[{]/.test(text);
    const other = isBroken ? undefined : foreignFile(bytes.subarray(0, FIRST_BYTES), "JSON");
    if (other !== undefined) throw new SyntaxError(`Cannot read ${path}: ${other}`, { cause });
    // The engine's message shows some of the text, whose control characters are for no terminal.
    const reason = text.trim() === ""
      ? "it is empty"
      : (cause as SyntaxError).message.replace(/\p{Cc}+/gu, " ");
    throw new SyntaxError(`Cannot read ${path}: it is not valid JSON: ${reason}`, { cause });
  }
}

/** Reads a JSON file that must hold an object, as every config file does. */
export async function readJsonObject(
  path: string,
  options: JsonFileOptions = {},
): Promise<JsonObject> {
  const value = await readJsonFile(path, options);
  if (isObject(value)) return value;
  const kind = value === null ? "null" : Array.isArray(value) ? "an array" : `a ${typeof value}`;
  throw new TypeError(`Cannot read ${path}: it must hold a JSON object, and it holds ${kind}`);
}

/** A value of a file as an error message can hold it: as JSON, cut after 80 characters. */
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
  try {
    checkInfo(path, await fileInfo(path), maxBytes);
    return await readFile(path);
  } catch (error) {
    throw readError(path, error);
  }
}

/** Looked at before the file is opened: opening a pipe would wait for a writer. */
function checkInfo(path: string, info: FileInfo, maxBytes: number): void {
  if (!info.isFile) {
    throw new Error(info.isDirectory ? "it is a folder" : "it is not a regular file");
  }
  if (info.size > maxBytes) {
    throw new RangeError(
      `Cannot read ${path}: it has ${info.size} bytes, and at most ${maxBytes} are allowed`,
    );
  }
}

/** What is thrown in place of an error of the file system; errors of this file stay as they are. */
function readError(path: string, cause: unknown): Error {
  if (cause instanceof RangeError || cause instanceof SyntaxError) return cause;
  const message = `Cannot read ${path}: ${describeFileError(cause)}`;
  return cause instanceof NotFoundError
    ? new NotFoundError(message, { cause })
    : new Error(message, { cause });
}
