/** Exchanges: places in a program where it stops until all ranks of a team have handed each other tensors. */
import type { Piece, Team } from "../team/team.ts";
import type { Saturation } from "./saturation.ts";

/** What one exchange is. */
export interface Exchange {
  /** Who takes part. */
  readonly team: Team;
  /** Bytes of what is brought, without padding. */
  readonly broughtBytes: readonly number[];
  /** Pieces of what is taken. */
  readonly taken: readonly (readonly Piece[])[];
  /** Whose counters are looked at. */
  readonly saturation: Saturation;
}
