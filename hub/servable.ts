/** Models that this machine has whole, by the names that requests give them. */

import { exists } from "../platform/mod.ts";
import { join } from "node:path";
import { type CachedModel, listCachedModels } from "./cached_models.ts";
import { findCacheFolder, findSnapshot, isHubId, parseHubFile } from "./cache.ts";
import { CATALOGUE, repositoriesOf } from "./catalogue.ts";
import { CATALOGUE_PARTS } from "./catalogue_parts.ts";
import { type HubSettings, hubSettings } from "./hub_settings.ts";
import { hasIndex } from "./model_index.ts";
import { cachedPrecision } from "./obtain_named.ts";
import { type OwnModel, readOwnModels } from "./own_models.ts";
import { resolveModel } from "./resolve.ts";

export interface ServableModel {
  readonly name: string;
  /** What `--model-path` would take. */
  readonly modelPath: string;
  /** Other names of it. */
  readonly aliases: readonly string[];
  /** Another one where its files are others. */
  readonly version: string;
}

/** Names of the catalogue and of the user's file, and hub ids of other pipelines and single files; none without a cache. */
export async function servableModels(given?: HubSettings): Promise<ServableModel[]> {
  if (!given && findCacheFolder() === undefined) return [];
  const settings = given ?? await hubSettings();
  const cached = await listCachedModels(settings.cacheFolder);
  const ofCatalogue = await Promise.all(CATALOGUE.map(async (entry): Promise<ServableModel[]> => {
    const ours = cached.filter(({ id }) => repositoriesOf(entry).includes(id));
    if (ours.length === 0 || !await cachedPrecision(entry, { settings })) return [];
    const { name, repository } = entry;
    return [{ name, modelPath: name, aliases: [repository], version: versionOf(ours) }];
  }));
  const own = await Promise.all(
    [...await readOwnModels()].map(async ([name, model]) =>
      await isHere(model, settings)
        ? [{ name, modelPath: name, aliases: [], version: JSON.stringify(model) }]
        : []
    ),
  );
  // Weights and parts for models of the catalogue are no models by themselves.
  const known = new Set([
    ...CATALOGUE.flatMap(repositoriesOf),
    ...CATALOGUE_PARTS.map(({ source }) => parseHubFile(source)?.id ?? source),
  ]);
  const others = await Promise.all(cached.map(async (model): Promise<ServableModel[]> => {
    const { id } = model;
    if (known.has(id) || !await isModel(id, settings)) return [];
    return [{ name: id, modelPath: id, aliases: [], version: versionOf([model]) }];
  }));
  return [...ofCatalogue, ...own, ...others].flat();
}

function versionOf(models: readonly CachedModel[]): string {
  return models.map(({ bytes, revisions }) => `${bytes} ${JSON.stringify(revisions)}`).join();
}

/** A pipeline, or a file of weights alone; language models have a `config.json` beside theirs. */
async function isModel(id: string, { cacheFolder }: HubSettings): Promise<boolean> {
  try {
    const folder = await findSnapshot(id, { cacheFolder });
    await resolveModel(id, { cacheFolder });
    return await hasIndex(folder) || !await exists(join(folder, "config.json"));
  } catch {
    return false;
  }
}

async function isHere({ model, parts }: OwnModel, { cacheFolder }: HubSettings): Promise<boolean> {
  try {
    await resolveModel(model, { cacheFolder });
    for (const place of Object.values(parts)) {
      const id = parseHubFile(place)?.id ?? place;
      if (!await exists(place) && isHubId(id)) await findSnapshot(id, { cacheFolder });
    }
    return true;
  } catch {
    return false;
  }
}
