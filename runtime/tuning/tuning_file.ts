/** Results of tuning runs on disk: one small file per adapter. Whatever is wrong with one, there just is no result. */
import {
  fileInfo,
  fileInfoSync,
  join,
  listFolderSync,
  NotFoundError,
  packedProgram,
  readText,
  writeText,
} from "../../platform/mod.ts";
import { isObject } from "../../hub/json_file.ts";
import type { VariantTiming } from "../target.ts";
import { type AdapterKey, digest, type TuningKey } from "./kernel_set.ts";
import type { Tuning } from "./tune.ts";

/** What the file of an adapter holds. */
export type TuningRecord =
  | {
    readonly state: "tuned";
    readonly path: string;
    readonly tuning: Tuning;
    /** When something was last measured. */
    readonly date: Date;
    /** Runs that began since the last one that ended. */
    readonly attempts: number;
  }
  /** There is no file, or it was made for other kernels or another driver. */
  | { readonly state: "none"; readonly path: string }
  /** Runs began and never ended, and measured nothing: the process or the device did not survive them. */
  | { readonly state: "unfinished"; readonly path: string; readonly attempts: number }
  | { readonly state: "unreadable"; readonly path: string; readonly reason: string };

const FORMAT = 2;
/** No file of ours is nearly as large. */
const MAX_BYTES = 1 << 20;

/** Where the results of an adapter are kept. Those of other kernels are overwritten, so a file does not outlive its use. */
export async function tuningPath(folder: string, key: AdapterKey): Promise<string> {
  const { adapter, vendor, backend } = key;
  const words = adapter.toLowerCase().match(/[a-z0-9]+/g) ?? [];
  const name = words.join("-").slice(0, 60) || "adapter";
  return join(folder, `${name}-${await digest(JSON.stringify([adapter, vendor, backend]))}.json`);
}

/**
 * Reads the results for an adapter; never throws for what it finds.
 *
 * @param kernels gives the key's last part, which takes longer than the rest: asked where there is a file that another
 * program wrote
 * @param stamp of this program
 */
export async function readTuning(
  folder: string,
  key: AdapterKey,
  kernels: () => Promise<string>,
  stamp: () => Promise<string | undefined> = programStamp,
): Promise<TuningRecord> {
  const path = await tuningPath(folder, key);
  try {
    const { isFile, size } = await fileInfo(path);
    if (!isFile) throw new TypeError("it is no file");
    if (size > MAX_BYTES) throw new TypeError(`it has ${size} bytes`);
    const written = await readText(path);
    const file = record(JSON.parse(written), "the file");
    const own = await stamp();
    if (own !== undefined && file["stamp"] === own) {
      const stored = text(record(file["key"], "the key")["kernels"], "kernels");
      return parseTuning(written, { ...key, kernels: stored }, path);
    }
    const found = parseTuning(written, { ...key, kernels: await kernels() }, path);
    // The same kernels of another program: the next start need not find that out again.
    if (own !== undefined && found.state === "tuned") {
      await replace(path, { ...file, stamp: own }).catch(() => {});
    }
    return found;
  } catch (error) {
    if (error instanceof NotFoundError) return { state: "none", path };
    return { state: "unreadable", path, reason: (error as Error).message };
  }
}

/**
 * Keeps results, at one stroke. Before a run and while it goes on, `attempts` counts it, so that one that ends the
 * process is not begun for ever.
 *
 * @param tuning what is known; nothing before the first race
 * @param attempts runs begun without an end, one under way counted
 * @returns the path of the file
 * @throws {Error} when the folder cannot be written
 */
export async function writeTuning(
  folder: string,
  key: TuningKey,
  tuning: Tuning | undefined,
  attempts = 0,
): Promise<string> {
  return await replace(await tuningPath(folder, key), {
    format: FORMAT,
    key,
    stamp: await programStamp(),
    attempts,
    ...(tuning && { date: new Date().toISOString(), tuning }),
  });
}

export function parseTuning(text: string, key: TuningKey, path: string): TuningRecord {
  const file = record(JSON.parse(text), "the file");
  if (file["format"] !== FORMAT || JSON.stringify(file["key"]) !== JSON.stringify(key)) {
    return { state: "none", path };
  }
  const attempts = number(file["attempts"], "attempts", 0);
  if (file["tuning"] === undefined) return { state: "unfinished", path, attempts };
  const date = new Date(String(file["date"]));
  if (Number.isNaN(date.getTime())) throw new TypeError("its date is none");
  return { state: "tuned", path, date, attempts, tuning: readTuningRecord(file["tuning"]) };
}

function readTuningRecord(value: unknown): Tuning {
  const { choices, excluded, classes, seconds } = record(value, "tuning");
  const { measured, known } = record(classes, "classes");
  return {
    choices: mapValues(
      choices,
      "choices",
      (classes, op) =>
        mapValues(classes, op, (timings, problemClass) => list(timings, problemClass).map(timing)),
    ),
    excluded: list(excluded, "excluded").map((line) => text(line, "excluded")),
    classes: { measured: number(measured, "measured", 0), known: number(known, "known", 0) },
    seconds: number(seconds, "seconds"),
  };
}

function timing(value: unknown): VariantTiming {
  const { variant, microseconds } = record(value, "timing");
  return {
    variant: text(variant, "variant"),
    microseconds: number(microseconds, "microseconds"),
  };
}

function mapValues<T>(
  value: unknown,
  name: string,
  read: (value: unknown, key: string) => T,
): Record<string, T> {
  const entries = Object.entries(record(value, name)).map((
    [key, entry],
  ) => [key, read(entry, key)]);
  return Object.fromEntries(entries);
}

function record(value: unknown, name: string): Record<string, unknown> {
  if (isObject(value)) return value;
  throw new TypeError(`${name} is no object`);
}

function list(value: unknown, name: string): unknown[] {
  if (Array.isArray(value)) return value;
  throw new TypeError(`${name} is no list`);
}

function text(value: unknown, name: string): string {
  if (typeof value === "string") return value;
  throw new TypeError(`${name} is no text`);
}

function number(
  value: unknown,
  name: string,
  lowest = Number.MIN_VALUE,
  highest = Number.MAX_VALUE,
): number {
  if (typeof value === "number" && value >= lowest && value <= highest) return value;
  throw new TypeError(`${name} is out of range`);
}

async function replace(path: string, content: object): Promise<string> {
  try {
    await writeText(path, JSON.stringify(content, null, 1));
    return path;
  } catch (error) {
    throw new Error(`Cannot keep what was measured in ${path}: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/** Where this module lies where the program lies as it was written. */
const OWN_PLACE = "/runtime/tuning/tuning_file.ts";

/** Digest of places, sizes and times of the kernels' files: milliseconds, where reading them takes half a second. */
export async function programStamp(module: string = import.meta.url): Promise<string | undefined> {
  try {
    const packed = packedProgram();
    if (packed !== undefined) return await digest(stampOf(packed));
    // What was packed into one file has no folder of its own.
    const isPacked = !module.endsWith(OWN_PLACE);
    const stamps = isPacked ? [stampOf(new URL(module))] : stampsBelow(new URL("../", module));
    return await digest([...stamps].join("\n"));
  } catch {
    return undefined;
  }
}

function* stampsBelow(folder: URL): Generator<string> {
  for (const name of listFolderSync(folder).sort()) {
    const path = new URL(name, folder);
    if (fileInfoSync(path).isDirectory) yield* stampsBelow(new URL(`${name}/`, folder));
    else if (!name.endsWith("_test.ts")) yield stampOf(path);
  }
}

function stampOf(file: URL | string): string {
  const { size, mtime } = fileInfoSync(file);
  return `${file} ${size} ${mtime?.getTime()}`;
}
