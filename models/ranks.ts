/** GPUs that make one request together: what each of them computes. */
import type { Team } from "../runtime/mod.ts";

/** The teams that a GPU is in. */
export interface Ranks {
  /** Each computes some of the passes that guidance combines. */
  readonly guidance?: Team;
}

/** One GPU alone. */
export const ALONE: Ranks = {};

/** All teams of a GPU. */
export function teamsOf(ranks: Ranks): Team[] {
  return Object.values(ranks) as Team[];
}

/** Whether a GPU is the one that decodes the result and shows previews. */
export function isFirst(ranks: Ranks): boolean {
  return teamsOf(ranks).every(({ rank }) => rank === 0);
}
