import type { TensorEntry } from "../../../runtime/mod.ts";
import { LoraError } from "../lora_error.ts";

/**
 * How trainers call what they store: the end of a key says what the tensor is, what stands before names the module.
 * Source: the files that PEFT, diffusers, kohya's scripts, LyCORIS, XLabs and lightx2v write, and what diffusers'
 * converters and ComfyUI accept.
 */

/**
 * What a tensor is to its module's change.
 *
 * - factors of a low-rank change: `down`, `up`, the `core` between them of a convolution, and `up_bias`
 * - LoHa and LoKr: the names that LyCORIS gave
 * - `alpha`: the number that scales, divided by the rank
 * - DoRA: `dora_scale`, whose shape says what it runs over, and `magnitude`, over rows
 * - `diff`, `diff_b`: added to the weight and to the bias as they are
 * - `whole`: a weight or bias itself and no change
 */
export type Part =
  | ("down" | "up" | "core" | "up_bias")
  | typeof HADAMARD[number]
  | typeof KRONECKER[number]
  | ("alpha" | "dora_scale" | "magnitude")
  | ("diff" | "diff_b" | "whole");

export const HADAMARD = [
  "hada_w1_a",
  "hada_w1_b",
  "hada_w2_a",
  "hada_w2_b",
  "hada_t1",
  "hada_t2",
] as const;
export const KRONECKER = [
  "lokr_w1",
  "lokr_w1_a",
  "lokr_w1_b",
  "lokr_w2",
  "lokr_w2_a",
  "lokr_w2_b",
  "lokr_t2",
] as const;

interface ParsedKey {
  readonly module: string;
  readonly part?: Part;
  readonly method?: string;
  readonly slot?: string;
}

/** Ends of keys; of several that fit, the first counts. */
const TAILS: readonly (readonly [tail: string, part: Part])[] = [
  // PEFT, diffusers since 0.22, and most trainers of transformers
  [".lora_A.weight", "down"],
  [".lora_B.weight", "up"],
  [".lora_B.bias", "up_bias"],
  [".lora_A", "down"],
  [".lora_B", "up"],
  [".lora_magnitude_vector.weight", "magnitude"],
  [".lora_magnitude_vector", "magnitude"],
  // kohya, musubi, LyCORIS, lightx2v
  [".lora_down.weight", "down"],
  [".lora_up.weight", "up"],
  [".lora_up.bias", "up_bias"],
  [".lora_mid.weight", "core"],
  [".alpha", "alpha"],
  ...[...HADAMARD, ...KRONECKER].map((part) => [`.${part}`, part] as const),
  [".dora_scale", "dora_scale"],
  [".diff", "diff"],
  [".diff_b", "diff_b"],
  [".w_norm", "diff"],
  [".b_norm", "diff_b"],
  // diffusers before 0.22
  [".lora.down.weight", "down"],
  [".lora.up.weight", "up"],
  [".lora_linear_layer.down.weight", "down"],
  [".lora_linear_layer.up.weight", "up"],
  ["_lora.down.weight", "down"],
  ["_lora.up.weight", "up"],
  // weights that were trained whole
  [".modules_to_save.weight", "whole"],
  [".modules_to_save.bias", "whole"],
  [".base_layer.weight", "whole"],
  [".base_layer.bias", "whole"],
];

const OTHER_METHODS: readonly (readonly [method: string, tails: readonly string[]])[] = [
  ["OFT", [".oft_blocks", ".oft_diag", ".oft_R", ".oft_R.weight"]],
  ["BOFT", [".boft_R", ".boft_s"]],
  ["a low-rank change of an embedding", [".lora_embedding_A", ".lora_embedding_B"]],
  ["VeRA", [".vera_lambda_b", ".vera_lambda_d"]],
  ["IA3", [".ia3_l", ".on_input"]],
  ["GLoRA", [".a1.weight", ".a2.weight", ".b1.weight", ".b2.weight"]],
  ["a replaced weight", [".set_weight"]],
  ["a weight of another shape", [".reshape_weight"]],
];

/** Where PEFT puts the LoRA's name: `lora_A.default.weight`, `hada_w1_a.default`. */
const SLOT =
  /\.(lora_A|lora_B|lora_magnitude_vector|lora_embedding_[AB]|modules_to_save|(?:hada|lokr)_\w+|oft_R)\.((?!weight$|bias$)[^.]+)(\.weight|\.bias)?$/;

/** XLabs names the processor and not the module: `double_blocks.0.processor.qkv_lora1.down.weight`. */
const XLABS = /^(.+\.processor\.(?:qkv|proj)_lora\d?)\.(down|up)\.weight$/;

/** Takes a key apart, or gives nothing when it is no LoRA's. */
export function parseKey(key: string): ParsedKey | undefined {
  const named = SLOT.exec(key);
  const plain = named ? `${key.slice(0, named.index)}.${named[1]}${named[3] ?? ""}` : key;
  const slot = named ? { slot: named[2]! } : {};
  const xlabs = XLABS.exec(plain);
  if (xlabs) return { module: xlabs[1]!, part: xlabs[2] as "down" | "up" };
  for (const [method, tails] of OTHER_METHODS) {
    const tail = tails.find((tail) => endsWith(plain, tail));
    if (tail !== undefined) return { module: without(plain, tail), method, ...slot };
  }
  // A change of the modulation, which the Wan team's modules have as a parameter of their own.
  if (endsWith(plain, ".diff_m")) {
    return { module: `${without(plain, ".diff_m")}.modulation`, part: "diff" };
  }
  const found = TAILS.find(([tail]) => endsWith(plain, tail));
  if (found) {
    const [tail, part] = found;
    const module = without(plain, tail);
    return { module: tail.startsWith("_") ? moduleOfProcessor(module) : module, part, ...slot };
  }
  for (const tail of [".weight", ".bias"]) {
    if (endsWith(plain, tail)) return { module: without(plain, tail), part: "whole" };
  }
  return undefined;
}

/** `attn1.processor.to_out` was the name for what is `attn1.to_out.0` else. */
function moduleOfProcessor(name: string): string {
  const module = name.replace(/\.processor\.([^.]+)$/, ".$1");
  return module.endsWith(".to_out") ? `${module}.0` : module;
}

function endsWith(key: string, tail: string): boolean {
  return key.length > tail.length && key.endsWith(tail);
}

function without(key: string, tail: string): string {
  return key.slice(0, key.length - tail.length);
}

const STYLES: readonly (readonly [pattern: RegExp, dialect: string])[] = [
  [/\.processor\.(qkv|proj)_lora\d?$/, "XLabs"],
  [/^lycoris_/, "LyCORIS"],
  [/^lora_(unet|transformer|te\d?)_/, "kohya"],
  [/^base_model\.model\./, "PEFT"],
  [/^((model\.)?diffusion_model|text_encoders)\./, "ComfyUI"],
  [/^(transformer|transformer_2|unet|text_encoder)\./, "diffusers"],
];

interface NamedModule {
  readonly module: ModuleTensors;
  readonly naming: string;
}

export function dialectOf(modules: readonly NamedModule[]): string {
  const counts = new Map<string, number>();
  const methods = new Set<string>();
  for (const { module: { name, parts }, naming } of modules) {
    const style = STYLES.find(([pattern]) => pattern.test(name))?.[1] ?? naming;
    counts.set(style, (counts.get(style) ?? 0) + 1);
    for (const part of parts.keys()) {
      if (part.startsWith("hada_")) methods.add("LoHa");
      if (part.startsWith("lokr_")) methods.add("LoKr");
      if (part === "dora_scale" || part === "magnitude") methods.add("DoRA");
      if (part === "diff") methods.add("differences");
    }
  }
  const [dialect = "unknown"] = [...counts].sort(([, a], [, b]) => b - a).map(([name]) => name);
  return methods.size > 0 ? `${dialect} (${[...methods].join(", ")})` : dialect;
}

export interface ModuleTensors {
  readonly name: string;
  readonly parts: ReadonlyMap<Part, TensorEntry>;
  readonly others: ReadonlyMap<string, string>;
  /** All keys, in the order of the file. */
  readonly keys: readonly string[];
}

interface GatheredKeys {
  readonly modules: readonly ModuleTensors[];
  /** Keys that no trainer's naming explains. */
  readonly unknown: readonly string[];
}

/** Gathers tensors by module. */
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
