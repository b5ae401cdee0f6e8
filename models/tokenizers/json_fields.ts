/** Reading of untyped JSON with errors that name the file and the field. */

import { excerpt } from "../../hub/json_file.ts";
import { isObject } from "../../hub/json_file.ts";

type JsonObject = Readonly<Record<string, unknown>>;

/** Longest path of a field in a message, in characters: pieces of a vocabulary are fields, too. */
const MAX_PATH = 200;

/** How deep objects of a tokenizer may be nested: stages in sequences, in practice 4. */
const MAX_DEPTH = 32;

export class JsonReader {
  readonly fields: JsonObject;
  readonly #file: string;
  readonly #path: string;
  readonly #depth: number;

  constructor(file: string, path: string, value: unknown, depth = 0) {
    this.#file = file;
    this.#path = path;
    this.#depth = depth;
    if (depth > MAX_DEPTH) throw this.error("", `is nested deeper than ${MAX_DEPTH} objects`);
    if (!isObject(value)) throw this.error("", "is not an object");
    this.fields = value;
  }

  error(key: string, problem: string): TypeError {
    const path = [this.#path, key].filter((part) => part !== "").join(".").slice(0, MAX_PATH);
    return new TypeError(`Cannot read ${this.#file}: ${path === "" ? "it" : path} ${problem}`);
  }

  get type(): string {
    return this.string("type");
  }

  unsupported(kind: string, supported: readonly string[]): TypeError {
    return this.error(
      "type",
      `is ${kind} ${excerpt(this.type)}, which is not supported; supported are ${
        supported.join(", ")
      }`,
    );
  }

  read<T>(kind: string, readers: Readonly<Record<string, (json: JsonReader) => T>>): T {
    if (Object.hasOwn(readers, this.type)) return readers[this.type]!(this);
    throw this.unsupported(kind, Object.keys(readers));
  }

  string(key: string, fallback?: string): string {
    const value = this.fields[key] ?? fallback;
    if (typeof value !== "string") throw this.error(key, "is not a string");
    return value;
  }

  boolean(key: string, fallback: boolean): boolean {
    const value = this.fields[key] ?? fallback;
    if (typeof value !== "boolean") throw this.error(key, "is not true or false");
    return value;
  }

  /** A whole number ≥ 0. */
  index(key: string): number {
    const value = this.fields[key];
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) {
      throw this.error(key, "is not a whole number >= 0");
    }
    return value;
  }

  /** An array, or an empty one where the key is absent or null. */
  array(key: string): readonly unknown[] {
    const value = this.fields[key] ?? [];
    if (!Array.isArray(value)) throw this.error(key, "is not an array");
    return value;
  }

  objects(key: string): JsonReader[] {
    return this.array(key).map((value, i) => this.#at(`${key}[${i}]`, value));
  }

  object(key: string): JsonReader {
    return this.#at(key, this.fields[key]);
  }

  optional(key: string): JsonReader | undefined {
    const value = this.fields[key];
    return value === undefined || value === null ? undefined : this.#at(key, value);
  }

  #at(key: string, value: unknown): JsonReader {
    const path = [this.#path, key].filter((part) => part !== "").join(".").slice(0, MAX_PATH);
    return new JsonReader(this.#file, path, value, this.#depth + 1);
  }
}
