/** Names that somebody may have meant. */

import { distance } from "fastest-levenshtein";
import { CATALOGUE } from "./catalogue.ts";
import { CATALOGUE_PARTS } from "./catalogue_parts.ts";

/** How many letters of a name may be wrong for it to be meant. */
const MAX_DISTANCE = 3;
/** Most names that a message tells. */
const MAX_TOLD = 3;

/** Those of `names` that are like the wanted one, or hold it as a part, the nearest first. */
export function nearNames(wanted: string, names: readonly string[]): string[] {
  const asked = wanted.toLowerCase();
  return names.map((name) => [name, distance(asked, name.toLowerCase())] as const)
    .filter(([name, far]) => far <= MAX_DISTANCE || isPart(asked, name))
    .sort(([, a], [, b]) => a - b).map(([name]) => name);
}

/** `; did you mean sdxl-base or sdxl-turbo?`, of the catalogue's models and parts; nothing where none is like it. */
export function didYouMean(wanted: string): string {
  const names = [...CATALOGUE, ...CATALOGUE_PARTS].map(({ name }) => name);
  const near = nearNames(wanted.trim().split(":")[0]!, names).slice(0, MAX_TOLD);
  return near.length === 0 ? "" : `; did you mean ${near.join(" or ")}?`;
}

/** Whether a name is a part of another one, whoever published it. */
function isPart(wanted: string, other: string): boolean {
  const short = wanted.split("/").at(-1)!;
  return short.length >= 4 && other.toLowerCase().includes(short);
}
