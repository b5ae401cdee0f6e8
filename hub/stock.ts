/** The catalogue as this machine sees it: what is here, what fits, and how much there is to fetch. */

import { statfs } from "node:fs/promises";
import { dirname } from "../platform/mod.ts";
import { listCachedModels } from "./cached_models.ts";
import { CATALOGUE, type CatalogueModel, repositoriesOf } from "./catalogue.ts";
import type { HubSettings } from "./hub_settings.ts";
import { cachedPrecision } from "./obtain_named.ts";
import { choosePrecision, downloadBytes, fits } from "./precision.ts";

export interface StockedModel {
  readonly entry: CatalogueModel;
  /** `partial` where files have come and others are missing. */
  readonly state: "absent" | "partial" | "present";
  /** The precision that is here, or would be fetched. */
  readonly precision: string;
  /** Bytes that are here, other precisions included. */
  readonly cachedBytes: number;
  /** About how much is fetched where nothing is here. */
  readonly downloadBytes: number;
  /** Whether its transformer stays on the GPU while it works; others are streamed, which is slow. */
  readonly fits: boolean;
}

/** Looks each model of the catalogue up in the cache; nothing is fetched. */
export async function takeStock(
  settings: HubSettings,
  availableBytes: number,
): Promise<StockedModel[]> {
  const cached = new Map(
    (await listCachedModels(settings.cacheFolder)).map(({ id, bytes }) => [id, bytes]),
  );
  return await Promise.all(CATALOGUE.map(async (entry) => {
    const cachedBytes = repositoriesOf(entry).reduce((sum, id) => sum + (cached.get(id) ?? 0), 0);
    const here = cachedBytes > 0 ? await cachedPrecision(entry, { settings }) : undefined;
    const precision = here ?? choosePrecision(entry, availableBytes);
    return {
      entry,
      state: here ? "present" : cachedBytes > 0 ? "partial" : "absent",
      precision,
      cachedBytes,
      downloadBytes: downloadBytes(entry, precision),
      fits: fits(entry, precision, availableBytes),
    };
  }));
}

/** The model to begin with: the first that fits and that everybody may use and fetch; the first one where none fits. */
export function firstChoice(stock: readonly StockedModel[]): StockedModel {
  return stock.find(({ fits, entry }) => fits && !entry.isGated && entry.makes === "images") ??
    stock[0]!;
}

/** Bytes that the disk of a folder has free; the folder may be missing. */
export async function freeBytes(folder: string): Promise<number | undefined> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    const parent = dirname(folder);
    return parent === folder ? undefined : await freeBytes(parent);
  }
}
