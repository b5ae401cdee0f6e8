/** A user's own files in the configuration folder: names of models in `models.json`, defaults of flags in `config.json`. */

import { join } from "node:path";
import { z } from "zod";
import { env as ownEnv, isFile } from "../platform/mod.ts";
import { readJsonObject } from "./json_file.ts";
import { PART_COMPONENTS } from "./model_index.ts";

export interface OwnModel {
  /** What `--model-path` would take. */
  readonly model: string;
  /** Parts from elsewhere, as the flags of their names take them. */
  readonly parts: Readonly<Record<string, string>>;
}

/** Parts by their names in the file, which are those of flags: `text-encoder-2` of `textEncoder2`. */
const PARTS: ReadonlyMap<string, string> = new Map(
  Object.keys(PART_COMPONENTS)
    .map((part) => [part.replace(/[A-Z]|\d/g, (sign) => `-${sign.toLowerCase()}`), part]),
);

const text = z.string().min(1).max(4096);
const entry = z.strictObject({
  model: text,
  ...Object.fromEntries([...PARTS.keys()].map((name) => [name, text.optional()])),
});

/** What names look like; hub ids and paths do not. */
const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/i;

/** The folder of a user's own files: `DENOISE_CONFIG`, else `denoise` in `XDG_CONFIG_HOME`, else in `.config` of the home folder. */
function configFolder(env: (name: string) => string | undefined): string | undefined {
  const get = (name: string) => env(name) || undefined;
  const config = get("XDG_CONFIG_HOME");
  const home = get("HOME") ?? get("USERPROFILE");
  return get("DENOISE_CONFIG") ??
    (config !== undefined
      ? join(config, "denoise")
      : home === undefined
      ? undefined
      : join(home, ".config", "denoise"));
}

/** Where a user's own names of models are. */
export function ownModelsFile(
  env: (name: string) => string | undefined = ownEnv,
): string | undefined {
  const folder = configFolder(env);
  return folder && join(folder, "models.json");
}

/** Where a user's own defaults of flags are. */
export function configFile(
  env: (name: string) => string | undefined = ownEnv,
): string | undefined {
  const folder = configFolder(env);
  return folder && join(folder, "config.json");
}

export async function readOwnModels(
  path: string | undefined = ownModelsFile(),
): Promise<ReadonlyMap<string, OwnModel>> {
  const isThere = path !== undefined && await isFile(path);
  if (!isThere) return new Map();
  const models = new Map<string, OwnModel>();
  for (const [name, value] of Object.entries(await readJsonObject(path))) {
    const parsed = entry.safeParse(value);
    if (!NAME.test(name) || !parsed.success) {
      const problem = parsed.success
        ? "a name has letters, digits, dots and dashes"
        : `${parsed.error.issues[0]?.path.join(".") || "it"}: ${parsed.error.issues[0]?.message}`;
      throw new TypeError(
        `Cannot read ${path}: the entry ${
          JSON.stringify(name.slice(0, 80))
        } is no model, ${problem}`,
      );
    }
    const { model, ...parts } = parsed.data as Record<string, string> & { model: string };
    models.set(name.toLowerCase(), {
      model,
      parts: Object.fromEntries(
        Object.entries(parts).map(([part, place]) => [PARTS.get(part)!, place]),
      ),
    });
  }
  return models;
}
