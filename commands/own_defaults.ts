/** A user's own defaults of flags: environment variables, and `config.json` in the configuration folder. */

import { boolean, type Flag, type Flags } from "../generation/flag.ts";
import { isFile } from "../platform/mod.ts";
import { excerpt, isObject, readJsonObject } from "../hub/json_file.ts";
import { configFile } from "../hub/own_models.ts";
import { UsageError } from "./failure.ts";
import { flagOf, normalizeArgs } from "./flag_command.ts";

/** Flags that belong to one request or one call, and have no default of a user's own. */
const NO_DEFAULTS: ReadonlySet<string> = new Set([
  ...[
    "prompt",
    "promptFile",
    "image",
    "mask",
    "control",
    "reference",
    "referenceMask",
    "video",
    "from",
    "output",
  ],
  ...["cancel", "include", "revision", "against", "type", "tensorType"],
]);

/** Commands by their names, with the flags of each. */
export type FlagTables = ReadonlyMap<string, Flags>;

/** The variable of a flag: `DENOISE_MAX_VRAM` of `--max-vram`. */
export function variableOf(row: string, flag: Flag<unknown>): string | undefined {
  if (NO_DEFAULTS.has(row)) return undefined;
  return `DENOISE_${flagOf(row, flag).slice(2).replaceAll("-", "_").toUpperCase()}`;
}

/** One value, and where it stands. */
export interface OwnDefault {
  readonly value: unknown;
  readonly text: string;
  readonly place: string;
}

/**
 * What a user has set for a command, by the rows of its table. A variable goes before the file, and in the file what stands
 * under the command's name goes before the rest.
 */
export async function ownDefaults(
  command: string,
  tables: FlagTables,
  env: (name: string) => string | undefined = (name) => Deno.env.get(name),
  path: string | undefined = configFile(env),
): Promise<ReadonlyMap<string, OwnDefault>> {
  const table = tables.get(command) ?? {};
  const found = new Map<string, OwnDefault>();
  const add = (row: string, given: unknown, place: string) =>
    found.set(row, { value: readValue(table[row]!, given, place), text: `${given}`, place });
  for (const [row, given] of await fileValues(command, tables, path)) add(row, given, path!);
  for (const [row, flag] of Object.entries(table)) {
    const variable = variableOf(row, flag);
    const text = variable && env(variable);
    if (text) add(row, text, variable);
  }
  return found;
}

async function fileValues(
  command: string,
  tables: FlagTables,
  path: string | undefined,
): Promise<Map<string, unknown>> {
  const values = new Map<string, unknown>();
  if (path === undefined || !await isFile(path)) return values;
  const wrong = (why: string) => new UsageError(`Cannot use ${path}: ${why}`);
  const own = new Map<string, unknown>();
  for (const [name, given] of Object.entries(await readJsonObject(path))) {
    const section = tables.get(name);
    if (section && isObject(given)) {
      for (const [flag, value] of Object.entries(given)) {
        const row = rowOf(section, flag);
        if (row === undefined) throw wrong(`${name} has no flag ${excerpt(flag)} with a default`);
        if (name === command) own.set(row, value);
      }
      continue;
    }
    if (![...tables.values()].some((table) => rowOf(table, name) !== undefined)) {
      throw wrong(`no command has a flag ${excerpt(name)} with a default; name flags without --`);
    }
    const row = rowOf(tables.get(command) ?? {}, name);
    if (row !== undefined) values.set(row, given);
  }
  return new Map([...values, ...own]);
}

function rowOf(table: Flags, name: string): string | undefined {
  const [flag] = normalizeArgs([`--${name}`]);
  return Object.keys(table).find((row) =>
    flagOf(row, table[row]!) === flag && !NO_DEFAULTS.has(row)
  );
}

function readValue({ kind, read, choices }: Flag<unknown>, given: unknown, place: string): unknown {
  const wrong = (why: string) => new UsageError(`Cannot use ${excerpt(given)} of ${place}: ${why}`);
  try {
    if (kind !== "value") {
      const isOn = typeof given === "boolean" ? given : boolean(String(given));
      return kind === "off" ? !isOn : isOn;
    }
    const texts = Array.isArray(given) ? given : [given];
    if (!texts.every((text) => typeof text === "string" || typeof text === "number")) {
      throw wrong("it must be a text or a number, or a list of them");
    }
    if (choices && !texts.every((text) => choices.includes(text))) {
      throw wrong(`it must be one of ${choices.join(", ")}`);
    }
    return texts.reduce<unknown>(
      (before, text) => read ? read(String(text), before) : String(text),
      undefined,
    );
  } catch (error) {
    if (error instanceof RangeError) throw wrong(error.message);
    throw error;
  }
}
