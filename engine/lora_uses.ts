/** From LoRAs in use to what the pipeline applies, and what becomes of them. */
import { LoraError } from "../models/lora/lora_error.ts";
import { resolveModes } from "../models/lora/resolve_mode.ts";
import type { AdaptableComponent, AppliedLora, LoraComponent } from "../models/lora/types.ts";
import type { CachedLora } from "./lora_cache.ts";
import type { LoraReport, LoraTarget, LoraUse } from "./types.ts";

/** Most keys of a LoRA that a message names. */
const MAX_NAMED = 3;
/** Far beyond what any LoRA stands; more would only overflow. */
const MAX_STRENGTH = 100;

/** What a pipeline is given, and what is said of it. */
export interface ResolvedLoras {
  /** LoRAs in the order of their uses. */
  readonly applied: readonly AppliedLora[];
  readonly reports: readonly LoraReport[];
}

/** What both text encoders of a model are called. */
const TEXT = "text_encoder";

/** Components that LoRAs can be meant for. */
export function loraTargets(components: readonly AdaptableComponent[]): LoraTarget[] {
  return components.flatMap(({ target }) =>
    target === TEXT || target === "text_encoder_2" ? [] : target
  );
}

/**
 * Checks uses that name a component or a strength. Nothing has to be read for that.
 *
 * @throws {LoraError} when the model cannot use LoRAs, lacks a component, or a number is out of range
 * @throws {TypeError} when they are no list of objects with paths
 */
export function checkLoraUses(
  uses: readonly LoraUse[],
  components: readonly AdaptableComponent[],
): void {
  for (const { path, target = "all", strength = 1, alpha } of requireUses(uses)) {
    if (typeof path !== "string") {
      throw new TypeError(
        `Cannot use ${JSON.stringify(path)} as the path of a LoRA: give text`,
      );
    }
    if (components.length === 0) throw new LoraError("Lora is not enabled");
    if (target !== "all" && !components.some((component) => component.target === target)) {
      throw new LoraError(
        `Cannot use target '${target}': this model has ${loraTargets(components).join(", ")}; ` +
          "name one of those, or 'all'",
      );
    }
    if (!(Math.abs(strength) <= MAX_STRENGTH)) {
      throw new LoraError(
        `Cannot use strength ${strength}: it must be from -${MAX_STRENGTH} to ${MAX_STRENGTH}`,
      );
    }
    if (alpha !== undefined && !(alpha > 0 && alpha < Infinity)) {
      throw new LoraError(`Cannot use alpha ${alpha}: it must be a positive number`);
    }
  }
}

function requireUses(uses: unknown): readonly LoraUse[] {
  const isList = Array.isArray(uses) && uses.every((use) => typeof use === "object" && use);
  if (isList) return uses;
  throw new TypeError(
    `Cannot use ${
      JSON.stringify(uses)
    } as LoRAs: give a list such as [{ "path": "style.safetensors" }]`,
  );
}

/**
 * Decides for each use what it changes, and how it is brought in.
 *
 * @throws {LoraError} when no key of a LoRA fits the components that it is meant for
 */
export function resolveLoraUses(
  uses: readonly LoraUse[],
  cached: readonly CachedLora[],
  components: readonly AdaptableComponent[],
  isStanding: boolean,
): ResolvedLoras {
  const meant = uses.map(({ target = "all", mode = "auto" }, index) => ({
    ...cached[index]!,
    targets: components.map((component) => component.target).filter((own) =>
      target === "all" || own === target ||
      target === TEXT && own === "text_encoder_2"
    ),
    mode,
  }));
  const modes = resolveModes(meant, components, isStanding);
  const reports: LoraReport[] = [];
  const applied = meant.map(({ key, lora, targets }, index): AppliedLora => {
    const { path, strength = 1 } = uses[index]!;
    const { mode, note } = modes[index]!;
    // Whoever asks knows of one text encoder.
    const names = new Set(targets.map((name) => name === "text_encoder_2" ? TEXT : name));
    const changed = [...names].flatMap((target) => {
      const changes = lora.changes.filter(({ target: own }) =>
        own === target || target === TEXT && own === "text_encoder_2" && targets.includes(own)
      );
      const layers = [...new Set(changes.map(({ module }) => module))];
      return layers.length === 0 ? [] : [{ target, layers }];
    });
    if (changed.length === 0) throw unmatched(path, targets, lora.unmatchedKeys);
    for (const { target, layers } of changed) {
      reports.push({
        ...{ index, path, target, strength, layers },
        mode: mode === "merge" ? "merged" : "dynamic",
        ...(note === undefined ? {} : { note }),
        dialect: lora.dialect,
        unmatchedKeys: lora.unmatchedKeys,
      });
    }
    return { key, lora, strength, targets, mode };
  });
  return { applied, reports };
}

function unmatched(
  path: string,
  targets: readonly LoraComponent[],
  keys: readonly string[],
): LoraError {
  const named = keys.slice(0, MAX_NAMED).join(", ");
  const example = named && `; it has ${named}${keys.length > MAX_NAMED ? ", …" : ""}`;
  return new LoraError(
    `Cannot use LoRA ${path}: no key of it fits ${targets.join(", ")}${example}`,
    keys,
  );
}
