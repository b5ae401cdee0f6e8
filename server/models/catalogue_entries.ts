/** The catalogue as programs read it. */

import { parseHubFile } from "../../hub/cache.ts";
import { cachedPart, isAutomatic } from "../../hub/cached_parts.ts";
import { isNonCommercial } from "../../hub/catalogue.ts";
import { CATALOGUE_PARTS } from "../../hub/catalogue_parts.ts";
import type { HubSettings } from "../../hub/hub_settings.ts";
import { precisionsOf } from "../../hub/precision.ts";
import { firstChoice, type StockedModel } from "../../hub/stock.ts";
import type { CatalogueAnswer } from "../contract/answers.ts";
import type { JobSummary } from "../jobs/job.ts";
import type { JobStore } from "../jobs/job_store.ts";
import type { JobResult } from "../jobs/outputs.ts";

/** What a result took. */
type Measured = NonNullable<CatalogueAnswer["data"][number]["measured"]>;

/** Most jobs that are looked at for what results took. */
const MAX_JOBS = 200;

/** What the latest result of each model took. */
export async function measuredModels(
  store: Pick<JobStore, "list">,
): Promise<ReadonlyMap<string, Measured>> {
  const measured = new Map<string, Measured>();
  for (
    const { summary, result } of await store.list({ statuses: ["completed"], limit: MAX_JOBS })
  ) {
    const { model, width, height } = (summary ?? {}) as Partial<JobSummary>;
    const { seconds, files = [] } = (result ?? {}) as Partial<JobResult>;
    if (model === undefined || seconds === undefined || measured.has(model)) continue;
    const each = Number((seconds / Math.max(1, files.length)).toFixed(1));
    measured.set(model, { seconds: each, size: `${width}x${height}` });
  }
  return measured;
}

/** The stock as `GET /v1/catalogue` and `list --all --json` tell it; without a known GPU nothing is said of what fits. */
export function catalogueEntries(
  stock: readonly StockedModel[],
  { endpoint }: Pick<HubSettings, "endpoint">,
  isKnown: boolean,
  measured: ReadonlyMap<string, Measured> = new Map(),
): CatalogueAnswer["data"] {
  const first = firstChoice(stock).entry.name;
  return stock.map(({ entry, state, precision, cachedBytes, downloadBytes, fits }) => ({
    id: entry.name,
    object: "catalogue.model",
    title: entry.title,
    family: entry.family,
    good_for: entry.goodFor,
    makes: entry.makes,
    tasks: entry.tasks,
    licence: entry.licence,
    gated: entry.isGated === true,
    non_commercial: isNonCommercial(entry),
    url: `${endpoint}/${entry.repository}`,
    state,
    precision,
    precisions: precisionsOf(entry),
    download_bytes: downloadBytes,
    cached_bytes: cachedBytes,
    fits: isKnown ? fits : null,
    measured: measured.get(entry.name) ?? null,
    first_choice: entry.name === first,
  }));
}

/** The parts as `GET /v1/catalogue` and `list --all --json` tell them. */
export async function partEntries(
  { endpoint, cacheFolder }: Pick<HubSettings, "endpoint" | "cacheFolder">,
): Promise<CatalogueAnswer["parts"]> {
  return await Promise.all(CATALOGUE_PARTS.map(async (row) => ({
    id: row.name,
    object: "catalogue.part",
    part: row.part,
    families: [...row.families],
    automatic: isAutomatic(row.part),
    licence: row.licence,
    url: `${endpoint}/${parseHubFile(row.source)?.id ?? row.source}`,
    state: await cachedPart(row, cacheFolder) === undefined ? "absent" : "present",
    download_bytes: row.bytes,
  })));
}
