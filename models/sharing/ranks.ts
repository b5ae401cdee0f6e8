/** GPUs that make one request together: what each of them computes. */
import type { Team } from "../../runtime/mod.ts";

/** GPUs that share the tokens of a transformer's pass. */
export interface SequenceTeam {
  readonly team: Team;
  /** How many neighbours share the heads of an attention over all of their tokens; what the size is divided by it, share keys. */
  readonly ulysses: number;
}

/** The teams that a GPU is in. */
export interface Ranks {
  /** Each computes some of the passes that guidance combines. */
  readonly guidance?: Team;
  /** Each computes some of the tokens of a pass. */
  readonly sequence?: SequenceTeam;
  /** Each computes some of the layers of a pass, and has only their weights. */
  readonly layers?: Team;
}

export const ALONE: Ranks = {};

export function teamsOf({ guidance, sequence, layers }: Ranks): Team[] {
  return [guidance, sequence?.team, layers].filter((team) => team !== undefined);
}

/** Whether a GPU is the one that decodes the result and shows previews. */
export function isFirst(ranks: Ranks): boolean {
  return teamsOf(ranks).every(({ rank }) => rank === 0);
}
