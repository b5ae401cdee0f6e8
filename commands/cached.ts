/** `denoise list` and `denoise rm`. */

import { BUNDLED_MODEL } from "../models/lora/bundled.ts";
import { hubCacheFolder, isHubId } from "../hub/cache.ts";
import { type CachedModel, listCachedModels, removeCachedModel } from "../hub/cached_models.ts";
import { CATALOGUE, repositoriesOf } from "../hub/catalogue.ts";
import { CATALOGUE_PARTS, type CataloguePart, partNamed } from "../hub/catalogue_parts.ts";
import { type OwnModel, ownModelsFile, readOwnModels } from "../hub/own_models.ts";
import { mostBytes } from "../hub/precision.ts";
import { catalogueEntries, partEntries } from "../server/models/catalogue_entries.ts";
import { firstChoice, type StockedModel, takeStock } from "../hub/stock.ts";
import type { FlagValues } from "../generation/flag.ts";
import { parseHubFile } from "../hub/cache.ts";
import { hubSettings } from "../hub/hub_settings.ts";
import type { LIST_FLAGS } from "./flags.ts";
import { measureOrAssume } from "./model_options.ts";
import { UsageError } from "./failure.ts";
import { columns, gigabytes, print, tell } from "./print.ts";

export async function runList({ all, json }: FlagValues<typeof LIST_FLAGS>): Promise<number> {
  const own = await readOwnModels();
  if (all) {
    const settings = await hubSettings();
    const bytes = await measureOrAssume(Math.max(...CATALOGUE.map(mostBytes)), tell);
    const stock = await takeStock(settings, bytes);
    if (json) {
      return printJson({
        device_bytes: bytes,
        data: catalogueEntries(stock, settings, true),
        parts: await partEntries(settings),
      });
    }
    print(describeStock(stock, bytes));
    for (const [part, title] of Object.entries(PART_TITLES)) {
      const rows = CATALOGUE_PARTS.filter((row) => row.part === part);
      print(`\n${title}:\n${describeParts(rows)}`);
    }
    if (own.size > 0) print(`\n${describeOwn(own)}`);
    return 0;
  }
  const folder = hubCacheFolder();
  const models = await listCachedModels(folder);
  if (json) return printJson({ data: models.map(toJson) });
  print(`${BUNDLED_MODEL}  comes with the program; 96x96 images and short videos`);
  if (own.size > 0) print(describeOwn(own));
  if (models.length > 0) print(describeModels(models));
  else tell(`Nothing is in ${folder}; "denoise list --all" shows what can be pulled`);
  return 0;
}

export async function runRemove(ids: readonly string[]): Promise<number> {
  const folder = hubCacheFolder();
  for (const id of ids) {
    if (id === BUNDLED_MODEL) {
      throw new UsageError(`Cannot remove ${id}: it is a part of this program`);
    }
    const named = repositoriesNamed(id);
    if (!named && !isHubId(id)) {
      throw new UsageError(
        `Cannot remove ${id}: it is neither a name that "denoise list --all" shows nor a hub id, as org/name`,
      );
    }
    const cached = new Set((await listCachedModels(folder)).map((model) => model.id));
    const repositories = named?.filter((repository) => cached.has(repository)) ?? [id];
    if (repositories.length === 0) {
      throw new Deno.errors.NotFound(`Cannot remove ${id}: nothing of it is in ${folder}`);
    }
    for (const repository of repositories) {
      const { bytes } = await removeCachedModel(repository, folder);
      print(`Removed ${repository}: ${gigabytes(bytes)} are free again`);
    }
  }
  return 0;
}

function repositoriesNamed(id: string): string[] | undefined {
  const wanted = id.trim().toLowerCase();
  const model = CATALOGUE.find(({ name }) => name === wanted);
  if (model) return repositoriesOf(model);
  const part = partNamed(wanted);
  return part && [parseHubFile(part.source)?.id ?? part.source];
}

function describeModels(models: readonly CachedModel[]): string {
  return columns(models.map(({ id, bytes, partialBytes, revisions, fetchedAt }) => [
    id,
    gigabytes(bytes),
    fetchedAt?.toISOString().slice(0, 10) ?? "",
    Object.entries(revisions).map(([name, commit]) => `${name} ${commit.slice(0, 8)}`).join(", ") ||
    "not complete",
    namesOf(id).join(", "),
    partialBytes > 0 ? `${gigabytes(partialBytes)} of unfinished files` : "",
  ]));
}

/** The catalogue within 80 columns: models on this machine, models that fit into `availableBytes` of GPU memory, larger ones. */
export function describeStock(stock: readonly StockedModel[], availableBytes: number): string {
  const of = (wanted: StockedModel["state"]) => stock.filter(({ state }) => state === wanted);
  const away = of("absent");
  const groups = [
    ["On this machine", of("present")],
    ["A part is on this machine; pull fetches the rest", of("partial")],
    [
      `Fit ${gigabytes(availableBytes)} of GPU memory, where their parts take turns`,
      away.filter(({ fits }) => fits),
    ],
    ["Larger: parts of them wait in memory, which is slow", away.filter(({ fits }) => !fits)],
  ] as const;
  const head = ["name", "GB, type", "makes", "licence"];
  const rows = columns([head, ...groups.flatMap(([, models]) => models.map(rowOf))]).split("\n");
  const lines = rows.splice(0, 1);
  for (const [title, models] of groups) {
    if (models.length > 0) lines.push(`${title}:`, ...rows.splice(0, models.length));
  }
  const { entry: { name, goodFor } } = firstChoice(stock);
  return [
    ...lines,
    "",
    `Begin with ${name}: ${goodFor}.`,
    `  denoise run ${name} "a red fox in the snow"`,
    "Another precision: a name with :q4_k or another type; docs/models.md lists them.",
  ].join("\n");
}

function rowOf({ entry, precision, downloadBytes, cachedBytes, state }: StockedModel): string[] {
  const bytes = state === "present" ? cachedBytes : downloadBytes;
  return [
    `  ${entry.name}`,
    `${(bytes / 1e9).toFixed(1).padStart(4)} ${precision.toUpperCase()}`,
    entry.makes,
    entry.licence + (entry.isGated ? ", gated" : ""),
  ];
}

function printJson(list: object): number {
  print(JSON.stringify({ object: "list", ...list }, undefined, 2));
  return 0;
}

function toJson({ id, bytes, partialBytes, revisions, fetchedAt }: CachedModel) {
  return {
    id,
    bytes,
    partial_bytes: partialBytes,
    revisions,
    fetched_at: fetchedAt?.toISOString() ?? null,
    names: namesOf(id),
  };
}

/** Names of the catalogue of which a repository is a part. */
function namesOf(id: string): string[] {
  return CATALOGUE.filter((entry) => repositoriesOf(entry).includes(id)).map(({ name }) => name);
}

const USED = "models use the one that was pulled, unless a flag names another or none";
const SERVED = "models of a server's cache use those that were pulled";
const PART_TITLES: Readonly<Record<CataloguePart["part"], string>> = {
  controlnet: `ControlNets, for --controlnet; ${SERVED}`,
  ipAdapter: `IP-Adapters, for --ip-adapter; ${SERVED}`,
  upscaler: `Upscalers; ${USED}`,
  frameInterpolator: `Frame interpolators; ${USED}`,
  tinyDecoder: `Tiny decoders for previews; ${USED}`,
};

function describeParts(all: readonly CataloguePart[]): string {
  const rows = all.map(({ name, families, licence, bytes }) => [
    ...[name, families.join(", ") || "all models", gigabytes(bytes), licence],
  ]);
  return columns([["name", "for", "size", "licence"], ...rows]);
}

function describeOwn(own: ReadonlyMap<string, OwnModel>): string {
  const rows = [...own].map(([name, { model, parts }]) => [
    name,
    model,
    Object.entries(parts).map(([part, place]) => `${part} ${place}`).join(", "),
  ]);
  return `Your own, of ${ownModelsFile()}:\n${columns(rows)}`;
}
