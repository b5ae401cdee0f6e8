/**
 * What a session says of its memory: which programs run at the same time, and what they take their weights from.
 *
 * @module
 */
import type { Graph, Resident, Run, Weights } from "../../runtime/mod.ts";

/** A part of a request's work: its programs need nothing of the other parts but the session's tensors. */
export interface Stage {
  /** Such as `text`, `denoise` or `decode`. */
  readonly name: string;
  /** Its programs before they are planned; a name is used once in a session. */
  readonly graphs: Readonly<Record<string, Graph>>;
  /** How often they run in a request, which is how often streamed weights are read; 1 when left out. */
  readonly repeats?: number;
}

/** A model's weights by component, in the order of use: `text encoder`, `transformer`, `autoencoder`. */
export type Components = Readonly<Record<string, Weights>>;

/** The memory that a session's programs need, before anything is allocated. */
export interface SessionMemory {
  /** In the order in which they run. */
  readonly stages: readonly Stage[];
  /** Where the weights in the graphs come from. */
  readonly components: Components;
  /** Inputs, results and state that live as long as the session; those that no program uses are left out. */
  readonly residents: readonly Resident[];
  /** Sets of `residents` that are read back at the same time. */
  readonly reads?: readonly (readonly Resident[])[];
}

/** Runs of one stage. */
export interface StageRuns {
  /** Its name. */
  readonly stage: string;
  /** Asked when the stage begins: its programs are there from then on. */
  readonly runs: () => Iterable<Run>;
}
