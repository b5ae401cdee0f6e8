/** Models by name: found in the catalogue or a user's own file, fetched where this machine lacks them. */

import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { exists, fileInfo, NotFoundError } from "../platform/mod.ts";
import { findSnapshot } from "./cache.ts";
import { CATALOGUE, type CatalogueModel } from "./catalogue.ts";
import { type PartName, readModelIndex } from "./model_index.ts";
import { chooseWithout, componentsOf, type ObtainOptions } from "./obtain_model.ts";
import { type OwnModel, readOwnModels } from "./own_models.ts";
import {
  choosePrecision,
  chooseQuantised,
  mostBytes,
  precisionsOf,
  typeOfFile,
} from "./precision.ts";
import { pullModel, type PullOptions } from "./pull.ts";

export type NamedModel =
  | { readonly own: OwnModel }
  | {
    readonly entry: CatalogueModel;
    /** Precision behind the name's colon; that which fits by default. */
    readonly precision?: string;
  };

interface ObtainedModel {
  /** The folder of its repository. */
  readonly path: string;
  /** Files in place of components, by the program's names of parts. */
  readonly parts: Readonly<Record<string, string>>;
  readonly precision: string;
}

interface ObtainNamedOptions extends ObtainOptions {
  /** Bytes that the GPU can give, of so many that are wanted. */
  readonly measure: (wantedBytes: number) => Promise<number>;
  /** Told in whole sentences what is about to be fetched. */
  readonly onNote?: (line: string) => void;
}

/** What a name such as `z-image-turbo` or `z-image-turbo:q4_k` stands for; a path that exists is none. */
export async function findNamed(text: string): Promise<NamedModel | undefined> {
  const [name = "", precision, ...rest] = text.trim().toLowerCase().split(":");
  if (rest.length > 0 || name.includes("/") || name.includes("\\") || name === "") return undefined;
  if (await exists(text)) return undefined;
  const own = (await readOwnModels()).get(name);
  if (own && precision === undefined) return { own };
  const entry = CATALOGUE.find((model) => model.name === name);
  if (!entry) return undefined;
  const known = precisionsOf(entry);
  if (precision !== undefined && !known.includes(precision)) {
    throw new RangeError(
      `Cannot take ${entry.name} in ${precision}: it is known in ${known.join(", ")}`,
    );
  }
  return { entry, ...(precision === undefined ? {} : { precision }) };
}

/** Fetches what this machine lacks of a model. */
export async function obtainNamed(
  { entry, precision: asked }: Extract<NamedModel, { entry: CatalogueModel }>,
  options: ObtainNamedOptions,
): Promise<ObtainedModel> {
  const precision = asked ??
    await cachedPrecision(entry, options) ??
    choosePrecision(entry, await options.measure(mostBytes(entry)));
  const { quantised } = entry;
  const isQuantised = precision !== "bf16" && quantised !== undefined;
  const parts: Record<string, string> = {};
  const note = () => options.onNote?.(describe(entry, precision));
  const told = once(note);
  if (isQuantised) {
    const wanted = (quantised.experts ?? [""])
      .map((mark, i) => ({
        mark,
        part: i === 0 ? "transformer" as const : "transformer2" as const,
      }))
      .filter(({ part }) => !options.given?.includes(part));
    const marks = wanted.map(({ mark }) => mark);
    const files = marks.length === 0
      ? []
      : await obtainFiles(quantised.repository, precision, marks, options, told);
    files.forEach((file, i) => parts[wanted[i]!.part] = file);
  }
  const own = Object.keys(parts) as PartName[];
  const left = componentsOf({ given: [...own, ...options.given ?? []] });
  const path = await obtainRepository(entry.repository, left, options, told);
  return { path, parts, precision };
}

/** A precision whose files are here already, so that another day gives the same one. */
export async function cachedPrecision(
  entry: CatalogueModel,
  options: Pick<PullOptions, "settings">,
): Promise<string | undefined> {
  const { quantised, repository } = entry;
  if (await wholeFolder(repository, [], options)) return "bf16";
  if (!quantised || !(await wholeFolder(repository, ["transformer", "transformer_2"], options))) {
    return undefined;
  }
  const marks = quantised.experts ?? [""];
  const paths = await cachedPaths(quantised.repository, options);
  return precisionsOf(entry).find((type) =>
    marks.every((mark) => paths.some((path) => path.includes(mark) && typeOfFile(path) === type))
  );
}

function describe({ title, licence, isGated }: CatalogueModel, precision: string): string {
  const terms = isGated ? "; its terms are to be accepted on its page, and HF_TOKEN to be set" : "";
  return `${title} in ${precision.toUpperCase()}, licence ${licence}${terms}`;
}

function once(act: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) act();
    isDone = true;
  };
}

/** The files of a type, one for each mark. */
async function obtainFiles(
  id: string,
  type: string,
  marks: readonly string[],
  options: ObtainNamedOptions,
  told: () => void,
): Promise<string[]> {
  const cached = await cachedPaths(id, options);
  const exact = cached.filter((path) => typeOfFile(path) === type);
  const there = marks.map((mark) => chooseQuantised(exact, type, mark));
  const root = () => snapshotOf(id, options);
  if (there.every((path) => path !== undefined)) {
    const folder = await root();
    return there.map((path) => resolve(join(folder, path)));
  }
  told();
  let chosen: string[] = [];
  await pullModel(id, {
    ...options,
    choose: (_, files) => {
      const paths = files.map(({ path }) => path);
      chosen = marks.flatMap((mark) => chooseQuantised(paths, type, mark) ?? []);
      if (chosen.length < marks.length) {
        const types = new Set(paths.flatMap((path) => typeOfFile(path) ?? []));
        throw new RangeError(
          `Cannot fetch ${id} in ${type}: it has ${[...types].join(", ") || "no quantised files"}`,
        );
      }
      return files.filter(({ path }) => chosen.includes(path));
    },
    onChosen: noteOf(id, options),
  });
  const folder = await root();
  return chosen.map((path) => resolve(join(folder, path)));
}

/** A repository in the layout of diffusers, without some components. */
async function obtainRepository(
  id: string,
  without: readonly string[],
  options: ObtainNamedOptions,
  told: () => void,
): Promise<string> {
  const there = await wholeFolder(id, without, options);
  if (there) return there;
  told();
  await pullModel(id, {
    ...options,
    choose: chooseWithout(without),
    onChosen: noteOf(id, options),
  });
  return resolve(await snapshotOf(id, options));
}

function noteOf(
  id: string,
  { onNote, onChosen }: ObtainNamedOptions,
): NonNullable<PullOptions["onChosen"]> {
  return (chosen) => {
    onChosen?.(chosen);
    const { files, bytes, missingBytes } = chosen;
    const size = (bytes: number) => `${(bytes / 1e9).toFixed(1)} GB`;
    const rest = missingBytes < bytes ? `, of which ${size(missingBytes)} are missing` : "";
    onNote?.(`Fetching ${files} ${files === 1 ? "file" : "files"} of ${id}: ${size(bytes)}${rest}`);
  };
}

/** The folder of a repository that has all components but these, or nothing. */
async function wholeFolder(
  id: string,
  without: readonly string[],
  options: Pick<PullOptions, "settings">,
): Promise<string | undefined> {
  try {
    const path = await snapshotOf(id, options);
    const { components } = await readModelIndex(path);
    for (const [name, { folder }] of components) {
      if (!without.includes(name) && !(await fileInfo(join(path, folder))).isDirectory) {
        return undefined;
      }
    }
    return resolve(path);
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

function snapshotOf(id: string, { settings }: Pick<PullOptions, "settings">): Promise<string> {
  return findSnapshot(id, { cacheFolder: settings?.cacheFolder });
}

/** Paths of a repository's files and folders on this machine. */
async function cachedPaths(
  id: string,
  options: Pick<PullOptions, "settings">,
): Promise<string[]> {
  try {
    const paths = await readdir(await snapshotOf(id, options), { recursive: true });
    return paths.map((path) => path.replaceAll("\\", "/"));
  } catch (error) {
    if (error instanceof NotFoundError) return [];
    throw error;
  }
}
