/** What a section of a report is given, and what it gives. */

import type { Device, DeviceOptions, Tuning } from "../../runtime/mod.ts";
import type { Ceilings } from "../ceilings.ts";
import type { SectionData, SectionName } from "../types.ts";

/** What earlier sections found that later ones make use of. */
export interface Known extends Partial<Ceilings> {
  /** Operations per second that the layers of models reach. */
  readonly layerFlopsPerSecond?: number;
  readonly tuning?: Tuning;
}

export interface SectionOrder {
  readonly name: SectionName;
  readonly device: Pick<
    DeviceOptions,
    "backend" | "powerPreference" | "forceFallbackAdapter" | "maxBytes"
  >;
  readonly seconds: number;
  readonly known: Known;
}

export interface SectionContext<Name extends SectionName> {
  readonly device: Device;
  readonly known: Known;
  /** When to end, in the time of `performance.now()`. */
  readonly deadline: number;
  /** Names what is done next: if it ends the process, the report says at what. */
  begin(what: string): void;
  /** Takes all that was found so far. */
  found(data: SectionData[Name]): void;
}

/** Measures; true when it had time for all. */
export type Section<Name extends SectionName> = (context: SectionContext<Name>) => Promise<boolean>;

/** Milliseconds until a deadline. */
export function timeLeft({ deadline }: { readonly deadline: number }): number {
  return deadline - performance.now();
}
