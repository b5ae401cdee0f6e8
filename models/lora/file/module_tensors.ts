/** The tensors of a LoRA file, gathered by the module that they are for. */
import type { TensorEntry } from "../../../runtime/mod.ts";
import { LoraError } from "../lora_error.ts";
import { parseKey, type Part } from "./keys.ts";

export interface ModuleTensors {
  /** Name of the module in the file, with prefixes. */
  readonly name: string;
  readonly parts: ReadonlyMap<Part, TensorEntry>;
  /** Keys of methods that are not applied, and what those are. */
  readonly others: ReadonlyMap<string, string>;
  /** All keys, in the order of the file. */
  readonly keys: readonly string[];
}

interface GatheredKeys {
  readonly modules: readonly ModuleTensors[];
  /** Keys that no trainer's naming explains. */
  readonly unknown: readonly string[];
}

/**
 * Gathers tensors by module.
 *
 * @throws {LoraError} when several tensors are the same part of one module, or several LoRAs share the file
 */
export function gatherKeys(
  tensors: ReadonlyMap<string, TensorEntry>,
  path: string,
): GatheredKeys {
  const modules = new Map<string, Gathering>();
  const unknown: string[] = [];
  const slots = new Set<string>();
  const problems: string[] = [];
  for (const [key, entry] of tensors) {
    const parsed = parseKey(key);
    if (!parsed) {
      unknown.push(key);
      continue;
    }
    const { module: name, part, method, slot } = parsed;
    if (slot !== undefined) slots.add(slot);
    let module = modules.get(name);
    if (!module) {
      modules.set(name, module = { name, parts: new Map(), others: new Map(), keys: [] });
    }
    module.keys.push(key);
    if (method !== undefined) module.others.set(key, method);
    // Weight and bias of one module may both be stored whole.
    else if (part === "whole") module.others.set(key, "a whole weight");
    else if (part && module.parts.has(part)) {
      problems.push(`"${key}" repeats "${module.parts.get(part)!.name}"`);
    } else if (part) module.parts.set(part, entry);
  }
  if (slots.size > 1) {
    throw new LoraError(
      `Cannot use the LoRA "${path}": it holds ${slots.size} LoRAs ` +
        `(${[...slots].slice(0, 8).join(", ")}); save one of them alone`,
    );
  }
  if (problems.length > 0) {
    throw new LoraError(`Cannot use the LoRA "${path}": ${problems[0]}`, problems);
  }
  return { modules: [...modules.values()], unknown };
}

interface Gathering extends ModuleTensors {
  readonly parts: Map<Part, TensorEntry>;
  readonly others: Map<string, string>;
  readonly keys: string[];
}
