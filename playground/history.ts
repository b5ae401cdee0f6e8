/** Results among many: those that are looked for, starred and selected. */

import type { Job, Result } from "./jobs.ts";
import { memory, Store } from "./store.ts";
import { dayOf } from "./texts.ts";

/** A result, or a job that has none. */
export interface Entry {
  job: Job;
  result: Result | undefined;
  index: number;
}

interface History {
  query: string;
  onlyStarred: boolean;
  /** By {@link keyOf}, as those that are selected; kept by this browser. */
  stars: readonly string[];
  isSelecting: boolean;
  selected: readonly string[];
}

export const history: Store<History> = new Store<History>({
  query: "",
  onlyStarred: false,
  stars: memory.read("stars", []),
  isSelecting: false,
  selected: [],
});

export function keyOf({ job, index }: Pick<Entry, "job" | "index">): string {
  return `${job.id} ${index}`;
}

function toggled(keys: readonly string[], key: string): readonly string[] {
  return keys.includes(key) ? keys.filter((other) => other !== key) : [...keys, key];
}

export function toggleStar(key: string): void {
  history.set(({ stars }) => ({ stars: toggled(stars, key) }));
  memory.write("stars", history.state.stars);
}

export function toggleSelected(key: string): void {
  history.set(({ selected }) => ({ selected: toggled(selected, key) }));
}

export function isFiltered({ query, onlyStarred }: History): boolean {
  return query.trim() !== "" || onlyStarred;
}

/** Whether a result has all words that are looked for, in its prompt, its model, its LoRAs or its date. */
export function matches(entry: Entry, { query, onlyStarred, stars }: History): boolean {
  if (onlyStarred && !stars.includes(keyOf(entry))) return false;
  const { prompt, model, loras, created_at } = entry.job;
  const day = dayOf(created_at);
  const drawn = entry.result?.prompt ?? "";
  const text = `${prompt ?? ""} ${drawn} ${model ?? ""} ${loras?.join(" ") ?? ""} ${day}`
    .toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
