/** The catalogue as programs read it. */

import { isNonCommercial } from "../../hub/catalogue.ts";
import type { HubSettings } from "../../hub/hub_settings.ts";
import { precisionsOf } from "../../hub/precision.ts";
import { firstChoice, type StockedModel } from "../../hub/stock.ts";
import type { CatalogueAnswer } from "../contract/answers.ts";

/** The stock as `GET /v1/catalogue` and `list --all --json` tell it; without a known GPU nothing is said of what fits. */
export function catalogueEntries(
  stock: readonly StockedModel[],
  { endpoint }: Pick<HubSettings, "endpoint">,
  isKnown: boolean,
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
    first_choice: entry.name === first,
  }));
}
