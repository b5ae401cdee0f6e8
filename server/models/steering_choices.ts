/** With which ControlNets and IP-Adapters of this machine models are opened: those that fit, or those that somebody chose. */

import type { Engine } from "../../engine/types.ts";
import type { CatalogueModel } from "../../hub/catalogue.ts";
import type { CataloguePart } from "../../hub/catalogue_parts.ts";
import {
  checkSteering,
  mostSteering,
  NO_STEERING,
  type Steering,
  steeringFor,
  steeringParts,
  usualSteering,
} from "../../hub/steering_parts.ts";
import type { ModelParts } from "../../engine/options.ts";
import type { Log } from "../log.ts";
import type { EngineOpener, FoundSource } from "../start_options.ts";

export class SteeringChoices {
  readonly #chosen = new Map<string, Steering>();
  readonly #log: Log;

  constructor(log: Log = () => {}) {
    this.#log = log;
  }

  /** A model with what of `there` it takes. What does not go with it by itself is omitted, and the log says why. */
  steered(
    source: FoundSource,
    entry: Pick<CatalogueModel, "family" | "name">,
    there: readonly CataloguePart[],
    open: (parts: ModelParts, how: Parameters<EngineOpener>) => Promise<Engine>,
  ): FoundSource {
    const { name } = source;
    const { family } = entry;
    const available = steeringFor(entry, there);
    let used = NO_STEERING;
    return {
      ...source,
      steering: {
        available,
        most: mostSteering(family),
        get used() {
          return used;
        },
        choose: (wanted) => {
          checkSteering(wanted, available, family);
          const before = this.#chosen.get(name);
          this.#chosen.set(name, wanted);
          return () => before ? this.#chosen.set(name, before) : this.#chosen.delete(name);
        },
      },
      open: async (...how) => {
        const chosen = this.#chosen.get(name);
        // Files of what was chosen may be gone.
        const here = (names: readonly string[], known: readonly string[]) =>
          names.filter((each) => known.includes(each));
        used = chosen
          ? {
            controlNets: here(chosen.controlNets, available.controlNets),
            ipAdapters: here(chosen.ipAdapters, available.ipAdapters),
          }
          : usualSteering(available, family);
        const parts = steeringParts(used);
        if (Object.keys(parts).length === 0) return await open({}, how);
        try {
          return await open({ ...parts, steersWhenAsked: true }, how);
        } catch (error) {
          if (chosen || how[1].aborted) throw error;
          const names = [...used.controlNets, ...used.ipAdapters].join(", ");
          this.#log(`Serves ${name} without ${names}: ${(error as Error).message}`, {
            level: "warning",
          });
          used = NO_STEERING;
          return await open({}, how);
        }
      },
    };
  }
}
