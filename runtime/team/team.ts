/** Devices that compute one thing together: each has a rank, and they meet to hand each other what they have. */
import type { RunControl } from "../run_control.ts";

/** Neighbouring bytes of what a rank brings to a meeting. */
export interface Piece {
  /** Who brings them. */
  readonly rank: number;
  /** First byte, counted over all that the rank brings. */
  readonly start: number;
  /** How many. */
  readonly byteLength: number;
}

/** What one rank brings to a meeting, and takes from it. */
export interface Meeting {
  /** Equal for all ranks. */
  readonly name: string;
  /** Bytes that the rank brings. */
  readonly brought: readonly Uint8Array[];
  /** Pieces that make up each thing that is taken, in order. */
  readonly taken: readonly (readonly Piece[])[];
  /** A few words to all, of which the others are to hear before they go on; empty for none. */
  readonly note: string;
}

/** Devices that compute one thing together. */
export interface Team {
  /** This device's rank, from 0. */
  readonly rank: number;
  /** How many ranks there are. */
  readonly size: number;
  /**
   * Waits until all ranks are here; one that brings a note may be somewhere else.
   *
   * @returns what is taken
   * @throws {NoteError} on all ranks when one has brought a note
   * @throws {DOMException} `AbortError` when cancelled
   * @throws {TeamError} when another rank has failed, or is somewhere else
   */
  meet(meeting: Meeting, control: RunControl): Promise<Uint8Array<ArrayBuffer>[]>;
}

/** A rank has brought a note to a meeting, so that nothing else came of it. */
export class NoteError extends Error {
  /** Where the meeting was. */
  readonly team: Team;
  /** Notes that are not empty. */
  readonly notes: readonly string[];

  /** On every rank. */
  constructor(team: Team, notes: readonly string[]) {
    super(`Cannot go on before this is heeded: ${notes.join(", ")}`);
    this.team = team;
    this.notes = notes;
  }
}

/** A rank cannot go on because of another. */
export class TeamError extends Error {
  /** Survives the way between threads. */
  override readonly name = "TeamError";
  /** Whether that one has done all that it had to. */
  readonly hasEnded: boolean;

  /** The message says which, or where. */
  constructor(message: string, hasEnded = false) {
    super(message);
    this.hasEnded = hasEnded;
  }
}

/**
 * Shares of a whole that ranks have, as equal as can be: the first ones have one more.
 *
 * @returns where each begins, and where the last one ends
 */
export function shareBounds(total: number, ranks: number): number[] {
  return Array.from(
    { length: ranks + 1 },
    (_, rank) => rank * Math.floor(total / ranks) + Math.min(rank, total % ranks),
  );
}
