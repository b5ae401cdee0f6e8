/** `denoise list` and `denoise rm`. */

import { BUNDLED_MODEL } from "../models/lora/bundled.ts";
import { hubCacheFolder, isHubId } from "../hub/cache.ts";
import { type CachedModel, listCachedModels, removeCachedModel } from "../hub/cached_models.ts";
import {
  CATALOGUE,
  type CatalogueModel,
  type CataloguePart,
  CONTROLNETS,
  IP_ADAPTERS,
  partNamed,
  repositoriesOf,
} from "../hub/catalogue.ts";
import { type OwnModel, ownModelsFile, readOwnModels } from "../hub/own_models.ts";
import { precisionsOf, transformerBytes } from "../hub/precision.ts";
import { parseHubFile } from "../hub/cache.ts";
import { UsageError } from "./failure.ts";
import { columns, gigabytes, print, tell } from "./print.ts";

export async function runList(flags: { readonly all?: boolean } = {}): Promise<number> {
  const own = await readOwnModels();
  if (flags.all) {
    print(describeCatalogue(CATALOGUE));
    print(`\nControlNets, for --controlnet:\n${describeParts(CONTROLNETS)}`);
    print(`\nIP-Adapters, for --ip-adapter:\n${describeParts(IP_ADAPTERS)}`);
    if (own.size > 0) print(describeOwn(own));
    return 0;
  }
  const folder = hubCacheFolder();
  const models = await listCachedModels(folder);
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
    CATALOGUE.filter((entry) => repositoriesOf(entry).includes(id)).map(({ name }) => name)
      .join(", "),
    partialBytes > 0 ? `${gigabytes(partialBytes)} of unfinished files` : "",
  ]));
}

function describeCatalogue(models: readonly CatalogueModel[]): string {
  const rows = models.map((model) => [
    model.name,
    model.makes,
    precisionsOf(model).map((type) =>
      `${type.toUpperCase()} ${(transformerBytes(model, type) / 1e9).toFixed(1)}`
    ).join(", "),
    `${model.textEncoder} ${(model.textEncoderBytes / 1e9).toFixed(1)}`,
    model.licence + (model.isGated ? ", gated" : ""),
  ]);
  return columns([["name", "makes", "transformer in GB", "text encoder", "licence"], ...rows]);
}

function describeParts(all: readonly CataloguePart[]): string {
  const rows = all.map(({ name, family, licence, parameters }) => [
    ...[name, family, (2 * parameters / 1e9).toFixed(1), licence],
  ]);
  return columns([["name", "for", "GB", "licence"], ...rows]);
}

function describeOwn(own: ReadonlyMap<string, OwnModel>): string {
  const rows = [...own].map(([name, { model, parts }]) => [
    name,
    model,
    Object.entries(parts).map(([part, place]) => `${part} ${place}`).join(", "),
  ]);
  return `Your own, of ${ownModelsFile()}:\n${columns(rows)}`;
}
