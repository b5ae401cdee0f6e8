/** Which module of a model a name in a LoRA file means: ours, other layouts', and either with underscores. */
import { type Layout, namesIn, toOurs } from "../../layouts.ts";
import type { Shape } from "../../../runtime/mod.ts";
import {
  type AdaptableComponent,
  type AdaptableModule,
  type LoraComponent,
  type Rows,
  TEXT_ENCODERS,
} from "../types.ts";

export interface PlacePart {
  readonly module: AdaptableModule;
  readonly theirs: Rows;
  readonly ours?: Rows;
}

export interface Place {
  readonly target: LoraComponent;
  /** Shape of its weight: that of ours, or of several joined along the rows. */
  readonly shape: Shape;
  readonly parts: readonly PlacePart[];
}

export interface FoundPlaces {
  readonly places: readonly Place[];
  /** `diffusers`, or the name of a layout; the naming with underscores is its own. */
  readonly naming: string;
}

const DENOISERS: readonly LoraComponent[] = ["transformer", "transformer_2", "critic"];

/** What files put before names, and which components it stands for; nothing of those that no model here has. */
const PREFIXES: readonly (readonly [prefix: string, targets: readonly LoraComponent[] | "any"])[] =
  [
    ["peft_model.", "any"],
    ["base_model.model.", "any"],
    ["transformer.", DENOISERS],
    ["transformer_2.", ["transformer_2"]],
    ["critic.", ["critic"]],
    ["fake_score_transformer.", ["critic"]],
    ["unet.", DENOISERS],
    ["model.diffusion_model.", DENOISERS],
    ["diffusion_model.", DENOISERS],
    ["text_encoder.", ["text_encoder"]],
    ["text_encoder_2.", ["text_encoder_2"]],
    // Of ComfyUI, which tells encoders apart by their names in between.
    ["text_encoders.", TEXT_ENCODERS],
    ["text_encoder_3.", ["text_encoder_3"]],
    ["model.", "any"],
    ["lora_unet__", DENOISERS],
    ["lora_unet_", DENOISERS],
    ["lora_transformer_", DENOISERS],
    ["lycoris_", DENOISERS],
    ["lora_te_", ["text_encoder"]],
    ["lora_te1_", ["text_encoder"]],
    // T5 is the second for some trainers, and the third for others: the place that it has in SD 3.
    ["lora_te2_", ["text_encoder_2"]],
    ["lora_te3_", ["text_encoder_3"]],
    ["model_", "any"],
  ];

/** ComfyUI names the encoder too: `text_encoders.qwen3_4b.transformer.model.layers.0.…`. */
const COMFYUI_ENCODER = /^text_encoders\.(?:[^.]+\.)?transformer\./;

const WRAPPERS = /(?<=^|\.)(?:_orig_mod|module|_fsdp_wrapped_module|_checkpoint_wrapped_module)\./g;

/** More prefixes than any file puts before one another. */
const MAX_PREFIXES = 4;

/** Share of the names that a prefix of all of them must lead to modules. */
const MIN_SHARE = 0.5;

interface Named {
  readonly place: Place;
  readonly naming: string;
}

interface ComponentNames {
  readonly target: LoraComponent;
  readonly dotted: ReadonlyMap<string, Named>;
  /** Modules with underscores for dots; names that two modules share then are omitted. */
  readonly flat: ReadonlyMap<string, Named>;
}

export class ModuleIndex {
  readonly #components: readonly ComponentNames[];
  readonly #prefixes: readonly (readonly [string, readonly LoraComponent[] | "any"])[];
  readonly #transformerOnly: boolean;
  /** What stands before all names and means nothing to us, such as `pipe.dit.`. */
  readonly #wrapper: string;

  /** Builds all names once; in a file that names `transformer_2`, `transformer` means only the first. */
  constructor(components: readonly AdaptableComponent[], names: readonly string[]) {
    this.#components = components.map(namesOf);
    const known = new Set(PREFIXES.map(([prefix]) => prefix));
    // Of a model with fewer encoders, the last is meant, whatever place it has elsewhere.
    const last = TEXT_ENCODERS.findLast((own) => components.some(({ target }) => target === own));
    const nearest = (meant: readonly LoraComponent[] | "any") =>
      meant !== "any" && last !== undefined && meant[0]! > last ? [last] : meant;
    this.#prefixes = [
      ...PREFIXES.map(([prefix, meant]) =>
        [prefix, prefix.startsWith("lora_te") ? nearest(meant) : meant] as const
      ),
      ...components.flatMap(({ target, layouts }) =>
        layouts.flatMap(({ prefixes }) => prefixes)
          .filter((prefix) => !known.has(prefix))
          .map((prefix) => [prefix, [target]] as const)
      ),
    ];
    this.#transformerOnly = names.some((name) =>
      /^(base_model\.model\.)?transformer_2\./.test(name)
    );
    this.#wrapper = "";
    this.#wrapper = this.#wrapperOf(names);
  }

  find(name: string): FoundPlaces | undefined {
    const plain = name.slice(this.#wrapper.length).replaceAll(WRAPPERS, "")
      .replace(COMFYUI_ENCODER, "text_encoders.");
    return this.#find(plain, "any", MAX_PREFIXES);
  }

  #wrapperOf(names: readonly string[]): string {
    const parts = names[0]?.split(".") ?? [];
    for (let count = 1; count <= MAX_PREFIXES && count < parts.length; count++) {
      const prefix = `${parts.slice(0, count).join(".")}.`;
      if (this.#prefixes.some(([known]) => known === prefix)) return "";
      if (!names.every((name) => name.startsWith(prefix))) return "";
      const found = names.filter((name) => this.find(name.slice(prefix.length)));
      if (found.length >= MIN_SHARE * names.length) return prefix;
    }
    return "";
  }

  #find(
    name: string,
    targets: readonly LoraComponent[] | "any",
    depth: number,
  ): FoundPlaces | undefined {
    const found = this.#look(name, targets);
    if (found || depth === 0) return found;
    for (const [prefix, meant] of this.#prefixes) {
      if (!name.startsWith(prefix)) continue;
      let narrowed = targets === "any" ? meant : targets;
      if (prefix === "transformer." && this.#transformerOnly) narrowed = ["transformer"];
      const inner = this.#find(name.slice(prefix.length), narrowed, depth - 1);
      if (inner) return inner;
    }
    return undefined;
  }

  #look(name: string, targets: readonly LoraComponent[] | "any"): FoundPlaces | undefined {
    // A name without a component may be a denoiser's or an encoder's, but not both.
    const choices = targets === "any" ? [DENOISERS, TEXT_ENCODERS] : [targets];
    const flatName = name.replaceAll(".", "_");
    for (const choice of choices) {
      const named = this.#components.filter(({ target }) => choice.includes(target))
        .map(({ dotted, flat }) => dotted.get(name) ?? flat.get(flatName))
        .filter((each) => each !== undefined);
      if (named.length > 0) {
        return { places: named.map(({ place }) => place), naming: named[0]!.naming };
      }
    }
    return undefined;
  }
}

function namesOf({ target, modules, layouts }: AdaptableComponent): ComponentNames {
  const dotted = new Map<string, Named>();
  const byName = new Map(modules.map((module) => [module.name, module]));
  for (const module of modules) {
    const { name, shape } = module;
    const place = { target, shape, parts: [{ module, theirs: [0, shape[0] ?? 1] as const }] };
    dotted.set(name, { place, naming: "diffusers" });
  }
  // Files are as free with the wrapper of transformers as checkpoints are.
  for (const [name, named] of [...dotted]) {
    if (name.startsWith("model.") && !dotted.has(name.slice(6))) dotted.set(name.slice(6), named);
  }
  for (const layout of layouts) {
    for (const [theirs, ours] of namesIn(layout, byName.keys())) {
      if (dotted.has(theirs)) continue;
      const place = placeOf(layout, target, theirs, ours.map((name) => byName.get(name)!));
      if (place) dotted.set(theirs, { place, naming: layout.name });
    }
  }
  return { target, dotted, flat: flattened(dotted) };
}

function placeOf(
  layout: Layout,
  target: LoraComponent,
  theirs: string,
  modules: readonly AdaptableModule[],
): Place | undefined {
  const rows = modules.reduce((sum, { shape }) => sum + (shape[0] ?? 1), 0);
  const byName = new Map(modules.map((module) => [module.name, module]));
  const filled = new Map<string, number>();
  const parts: PlacePart[] = [];
  let found: ReturnType<typeof toOurs>;
  try {
    found = toOurs(layout, theirs, rows);
  } catch {
    return undefined;
  }
  for (const { name, start, count } of found ?? []) {
    const module = byName.get(name);
    if (!module) return undefined;
    const at = filled.get(name) ?? 0;
    filled.set(name, at + count);
    const isWhole = count === (module.shape[0] ?? 1);
    parts.push({ module, theirs: [start, count], ...(isWhole ? {} : { ours: [at, count] }) });
  }
  for (const module of modules) {
    if (filled.get(module.name) !== (module.shape[0] ?? 1)) return undefined;
  }
  return { target, shape: [rows, ...modules[0]!.shape.slice(1)], parts };
}

function flattened(dotted: ReadonlyMap<string, Named>): ReadonlyMap<string, Named> {
  const flat = new Map<string, Named>();
  const shared = new Set<string>();
  for (const [name, named] of dotted) {
    const key = name.replaceAll(".", "_");
    const other = flat.get(key);
    if (other && !isSame(other.place, named.place)) shared.add(key);
    else if (!other) flat.set(key, named);
  }
  for (const key of shared) flat.delete(key);
  return flat;
}

function isSame(a: Place, b: Place): boolean {
  return a.parts.length === b.parts.length &&
    a.parts.every(({ module }, i) => module === b.parts[i]!.module);
}
