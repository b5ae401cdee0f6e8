/** Which adapters are set on which component, as values: each change makes new ones, so that nothing is half done. */

import type { LoraReport } from "../../engine/types.ts";
import { LORA_TARGETS, type LoraTargetName } from "../../generation/lora_words.ts";
import type { JobLora } from "../contract/lora_requests.ts";

/** A component that can have LoRAs. */
export type SlotName = Exclude<LoraTargetName, "all">;

/** A LoRA that was set on one component. */
export interface SlotLora extends JobLora {
  readonly nickname: string;
  readonly target: SlotName;
}

export interface Slot {
  /** LoRAs in the order in which they are applied. */
  readonly loras: readonly SlotLora[];
  /** Whether the LoRAs are in use, or only remembered, to be merged again. */
  readonly isActive: boolean;
}

/** Slots by component, in the order of the model. */
export type Slots = ReadonlyMap<SlotName, Slot>;

/** The LoRAs in use, one entry for each component of each. */
export function activeLoras(slots: Slots): SlotLora[] {
  return [...slots.values()].flatMap(({ loras, isActive }) => isActive ? loras : []);
}

/** Sets LoRAs in place of those on the components that they are meant for; a component that none of them changes has none then. */
export function setSlots(
  slots: Slots,
  loras: readonly (JobLora & { readonly nickname: string })[],
  reports: readonly LoraReport[],
): Slots {
  const named = loras.map(({ target }) => target);
  const next = new Map([...slots].filter(([name]) => !isMeant(name, named)));
  for (const { index, target } of reports) {
    const slot = next.get(target) ?? { loras: [], isActive: true };
    next.set(target, { ...slot, loras: [...slot.loras, { ...loras[index]!, target }] });
  }
  const order = (name: SlotName) => LORA_TARGETS.indexOf(name);
  return new Map([...next].sort(([a], [b]) => order(a) - order(b)));
}

/** Merges what is set, or was before it was unmerged. */
export function mergeSlots(slots: Slots, target: LoraTargetName, strength: number): Slots {
  return mapSlots(slots, target, ({ loras }) => ({
    loras: loras.map((lora) => ({ ...lora, strength, mode: "merge" as const })),
    isActive: true,
  }));
}

/** Takes LoRAs out of use; they can be merged again. */
export function unmergeSlots(slots: Slots, target: LoraTargetName): Slots {
  return mapSlots(slots, target, ({ loras }) => ({ loras, isActive: false }));
}

export function isMeant(name: SlotName, named: readonly LoraTargetName[]): boolean {
  return named.includes("all") || named.includes(name);
}

function mapSlots(slots: Slots, target: LoraTargetName, change: (slot: Slot) => Slot): Slots {
  return new Map(
    [...slots].map(([name, slot]) => [name, isMeant(name, [target]) ? change(slot) : slot]),
  );
}
