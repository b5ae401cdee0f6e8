/** LoRA files of every dialect, read and matched against a model. */
import { LoraFile } from "./file/lora_file.ts";
import { MisfitError } from "./file/change_kinds.ts";
import { dialectOf, gatherKeys, type ModuleTensors } from "./file/keys.ts";
import { familyOf, mayBeFamily } from "./file/family_signs.ts";
import { type FoundPlaces, ModuleIndex, type Place } from "./file/module_index.ts";
import { planModule, type PlannedModule } from "./file/plan_module.ts";
import { Scales } from "./file/scales.ts";
import { LoraError } from "./lora_error.ts";
import type { AdaptableComponent, Lora, LoraTensor, ModuleChange, WeightChange } from "./types.ts";
import { readWords, wordOf } from "./words.ts";

interface ReadLoraOptions {
  /** Counts instead of the alpha that the file gives, for all modules. Above 0. */
  readonly alpha?: number;
}

/** Longer lists of problems end with how many more there are. */
const MAX_PROBLEMS = 200;

/** Below this share of modules that fit, a LoRA is of another model. */
const MIN_SHARE = 0.1;

/** Below this share, a LoRA whose names are those of another family is one of that family. */
const MIN_SHARE_OF_STRANGER = 0.5;

interface Matched {
  readonly module: ModuleTensors;
  readonly found: FoundPlaces;
}

/** Reads a LoRA, all of it or nothing, and PEFT's settings beside it. Tensors lie in shared memory, for workers. */
export async function readLora(
  path: string,
  components: readonly AdaptableComponent[],
  { alpha }: ReadLoraOptions = {},
): Promise<Lora> {
  using file = await LoraFile.open(path);
  const readsWords = components.some((component) => component.readsWords);
  const changing = [...file.tensors].filter(([key]) => !readsWords || wordOf(key) === undefined);
  const { modules, unknown } = gatherKeys(new Map(changing), path);
  const index = new ModuleIndex(components, modules.map(({ name }) => name));
  const matched: Matched[] = [];
  const unmatched = new Set(unknown);
  for (const module of modules) {
    const found = index.find(module.name);
    if (found) matched.push({ module, found });
    else module.keys.forEach((key) => unmatched.add(key));
  }
  const stranger = checkFamily(file, components, {
    matched: matched.length,
    all: modules.length + unknown.length,
    unmatched,
  });
  const scales = await Scales.read(file, alpha);
  const problems: string[] = [];
  const used = withoutRepeats(matched, problems, unmatched);
  const plans = planAll(used, scales, problems);
  throwProblems(problems, path, stranger);
  for (const plan of plans) plan.unmatched.forEach((key) => unmatched.add(key));
  const entries = new Set(plans.flatMap(({ tensors }) => tensors));
  if (entries.size === 0) {
    throw new LoraError(`Cannot use the LoRA "${path}": it changes nothing`);
  }
  const tensors = await file.read(entries);
  const changes = plans.flatMap((plan) => plan.build(({ name }) => tensors.get(name)!));
  const words = readsWords ? await readWords(file) : [];
  return {
    dialect: dialectOf(used.map(({ module, found }) => ({ module, naming: found.naming }))),
    changes,
    unmatchedKeys: [...file.tensors.keys()].filter((key) => unmatched.has(key)),
    ...(words.length > 0 && { words }),
    byteLength: byteLengthOf(changes),
    ...referenceScaleOf(file),
  };
}

/** What Lightricks' trainer says of the control videos. */
function referenceScaleOf({ metadata, path }: LoraFile): Pick<Lora, "referenceScale"> {
  const number = (key: string) => {
    const text = metadata[key];
    if (text === undefined) return 1;
    const value = Number(text);
    if (Number.isSafeInteger(value) && value >= 1) return value;
    throw new LoraError(
      `Cannot use the LoRA "${path}": ${key} is "${text.slice(0, 80)}", and no whole number from 1`,
    );
  };
  const temporal = number("reference_temporal_scale_factor");
  if (temporal !== 1) {
    throw new LoraError(
      `Cannot use the LoRA "${path}": it was trained with control videos of every ${temporal}th frame, which is not supported`,
    );
  }
  return "reference_downscale_factor" in metadata
    ? { referenceScale: number("reference_downscale_factor") }
    : {};
}

interface Counts {
  readonly matched: number;
  readonly all: number;
  readonly unmatched: ReadonlySet<string>;
}

/** Checks that the file is for this model at all; gives the family that it looks like, where that is another. */
function checkFamily(
  file: LoraFile,
  components: readonly AdaptableComponent[],
  { matched, all, unmatched }: Counts,
): string | undefined {
  const families = [...new Set(components.map(({ family }) => family))];
  const keys = [...file.tensors.keys()];
  if (keys.length === 0) {
    throw new LoraError(`Cannot use the LoRA "${file.path}": it holds no tensors`);
  }
  const looksLike = familyOf(file.tensors);
  const isStranger = looksLike !== undefined &&
    !families.some((family) => mayBeFamily(looksLike, family));
  const share = matched / all;
  if (share >= (isStranger ? MIN_SHARE_OF_STRANGER : MIN_SHARE)) {
    return isStranger ? looksLike : undefined;
  }
  const fit = matched === 0
    ? `none of its ${keys.length} keys leads to a module of this model`
    : `only ${matched} of its ${all} modules are this model's`;
  throw new LoraError(
    `Cannot use the LoRA "${file.path}": ${fit} (${families.join(", ")})` +
      (isStranger
        ? `; it looks like one for ${looksLike}`
        : `; its keys are like "${keys[0]!.slice(0, 80)}"`),
    bounded([...unmatched].map((key) => `"${key}" is no module of this model`)),
  );
}

/** Drops what a file says twice: joined modules beside separate ones, or a module under two names; ours count first. */
function withoutRepeats(
  matched: readonly Matched[],
  problems: string[],
  unmatched: Set<string>,
): Matched[] {
  const order = ({ found }: Matched) =>
    found.naming === "diffusers" ? 0 : found.places[0]!.parts.length === 1 ? 1 : 2;
  const byModule = new Map<string, Matched>();
  const dropped = new Set<Matched>();
  const inOrder = [...matched].sort((a, b) => order(a) - order(b));
  for (const each of inOrder) {
    const names = each.found.places.flatMap((
      { target, parts },
    ) => [...new Set(parts.map(({ module }) => `${target}.${module.name}`))]);
    const others = names.map((name) => byModule.get(name));
    const isRepeat = others.every((other) => other && order(other) < order(each));
    const clash = others.find((other) => other !== undefined);
    if (isRepeat) {
      dropped.add(each);
      for (const key of each.module.keys) unmatched.add(key);
    } else if (clash) {
      problems.push(`"${each.module.name}" and "${clash.module.name}" are the same module`);
    } else for (const name of names) byModule.set(name, each);
  }
  return matched.filter((each) => !dropped.has(each));
}

function planAll(
  matched: readonly Matched[],
  scales: Scales,
  problems: string[],
): PlannedModule[] {
  const plans: PlannedModule[] = [];
  for (const { module, found } of matched) {
    for (const [key, method] of module.others) {
      problems.push(`"${key}" is ${method}, which is not applied`);
    }
    for (const place of found.places) {
      try {
        plans.push(planOne(module, place, scales));
      } catch (error) {
        if (!(error instanceof MisfitError)) throw error;
        problems.push(error.message);
        break;
      }
    }
  }
  return plans;
}

function planOne(module: ModuleTensors, place: Place, scales: Scales): PlannedModule {
  if (scales.isDora(module) && module.parts.has("up") && !module.parts.has("magnitude")) {
    throw new MisfitError(`"${module.name}" has no lora_magnitude_vector, which use_dora asks for`);
  }
  return planModule(module, place, (rank) => scales.scaleOf(module, rank));
}

function throwProblems(
  problems: readonly string[],
  path: string,
  stranger: string | undefined,
): void {
  if (problems.length === 0) return;
  const more = problems.length > 1 ? `, and ${problems.length - 1} more like it` : "";
  const hint = stranger ? `; it looks like one for ${stranger}` : "";
  throw new LoraError(
    `Cannot use the LoRA "${path}": ${problems[0]}${more}${hint}`,
    bounded(problems),
  );
}

function bounded(problems: readonly string[]): string[] {
  if (problems.length <= MAX_PROBLEMS) return [...problems];
  return [...problems.slice(0, MAX_PROBLEMS), `and ${problems.length - MAX_PROBLEMS} more`];
}

/** Bytes of the memory that changes keep: tensors that several share count once. */
function byteLengthOf(changes: readonly ModuleChange[]): number {
  const buffers = new Set<ArrayBufferLike>();
  for (const { weight, bias, magnitude } of changes) {
    const tensors = [...weight.flatMap(tensorsOf), bias, magnitude?.lengths];
    for (const tensor of tensors) if (tensor) buffers.add(tensor.bytes.buffer);
  }
  return buffers.values().reduce((sum, { byteLength }) => sum + byteLength, 0);
}

export function tensorsOf(change: WeightChange): readonly LoraTensor[] {
  switch (change.kind) {
    case "low-rank":
      return [change.up, change.down];
    case "hadamard":
      return [...change.up, ...change.down];
    case "kronecker":
      return change.factors.flat();
    case "whole":
      return [change.delta];
  }
}
