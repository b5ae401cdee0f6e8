/** What a set of LoRAs means for a component: branches beside some layers, changes written into other weights. */
import { elementCount, formatShape, type LinearSite } from "../../runtime/mod.ts";
import { branchRank, matrixShape, needsWriting } from "./low_rank_form.ts";
import type { Branch } from "./packed_layer.ts";
import type {
  AdaptableComponent,
  AdaptableModule,
  AppliedLora,
  LoraTensor,
  ModuleChange,
  WeightChange,
} from "./types.ts";

export interface WeightedChange {
  readonly lora: AppliedLora;
  readonly change: ModuleChange;
}

export interface ComponentPlan {
  /** Equal keys mean the same programs and the same branches, strengths apart. */
  readonly key: string;
  readonly branches: ReadonlyMap<string, readonly Branch[]>;
  readonly strengths: readonly number[];
  readonly weights: ReadonlyMap<AdaptableModule, readonly WeightedChange[]>;
  readonly biases: ReadonlyMap<AdaptableModule, readonly WeightedChange[]>;
  readonly hasDecoded: boolean;
}

export function siteKey({ names }: Pick<LinearSite, "names">): string {
  return names.join("+");
}

/**
 * A change is written into the weight if its LoRA asks for it, or it has no branch, or no product takes it, or a later one
 * sets the lengths of the whole; others become branches. Of quantised weights, all changes are written if one is. Biases are
 * always written. LoRAs of strength 0 are as if they were not there.
 */
export function planComponent(
  component: AdaptableComponent,
  sites: Iterable<LinearSite>,
  loras: readonly AppliedLora[],
): ComponentPlan {
  const places = placesOf(sites);
  const branches = new Map<string, Branch[]>();
  const used: AppliedLora[] = [];
  const weights = new Map<AdaptableModule, readonly WeightedChange[]>();
  const biases = new Map<AdaptableModule, readonly WeightedChange[]>();
  const folded: [module: string, loras: string[]][] = [];
  for (const [module, steps] of changesOf(component, loras)) {
    const own = places.get(module.name) ?? [];
    const isMerged = ({ lora }: WeightedChange) => lora.mode === "merge" && !module.isQuantised;
    const isWritten = (step: WeightedChange) =>
      isMerged(step) || needsWriting(step.change, module) || own.length === 0;
    const biased = steps.filter(({ change }) => change.bias);
    if (biased.length > 0) biases.set(module, biased);
    const weighted = steps.filter(({ change }) => change.weight.length > 0 || change.magnitude);
    const count = module.isQuantised && weighted.some(isWritten)
      ? weighted.length
      : weighted.findLastIndex(({ change }) => change.magnitude) + 1;
    const written = weighted.filter((step, i) => i < count || isWritten(step));
    if (written.length > 0) {
      weights.set(module, written);
      const others = written.filter((step) => !isMerged(step)).map(({ lora }) => lora.key);
      if (others.length > 0) folded.push([module.name, others]);
    }
    for (const step of weighted) {
      if (written.includes(step)) continue;
      const { lora, change } = step;
      if (!used.includes(lora)) used.push(lora);
      for (const part of change.weight) {
        const [start, count] = part.rows ?? [0, module.shape[0]!];
        for (const { key, firstColumn } of own) {
          listOf(branches, key).push({
            lora: used.indexOf(lora),
            change: part,
            rank: branchRank(part)!,
            columns: [firstColumn + start, count],
          });
        }
      }
    }
  }
  const key = used.length === 0 && folded.length === 0
    ? ""
    : JSON.stringify([used.map(({ key, mode }) => [key, mode]), folded]);
  const strengths = used.map(({ strength }) => strength);
  const hasDecoded = [...weights.keys()].some(({ isQuantised }) => isQuantised);
  return { key, branches, strengths, weights, biases, hasDecoded };
}

function changesOf(
  { target, modules }: AdaptableComponent,
  loras: readonly AppliedLora[],
): Map<AdaptableModule, WeightedChange[]> {
  const byName = new Map(modules.map((module) => [module.name, module]));
  const changes = new Map<AdaptableModule, WeightedChange[]>();
  for (const lora of loras) {
    if (lora.strength === 0 || !lora.targets.includes(target)) continue;
    for (const change of lora.lora.changes) {
      if (change.target !== target) continue;
      const module = byName.get(change.module);
      if (!module) {
        throw new RangeError(
          `Cannot apply LoRA "${lora.key}": it changes "${change.module}" of the ${target}, ` +
            "which this model lacks; read it for this model",
        );
      }
      checkChange(change, module);
      listOf(changes, module).push({ lora, change });
    }
  }
  return changes;
}

function placesOf(
  sites: Iterable<LinearSite>,
): Map<string, { readonly key: string; readonly firstColumn: number }[]> {
  const places = new Map<string, { key: string; firstColumn: number }[]>();
  for (const site of sites) {
    for (const [i, name] of site.names.entries()) {
      const firstColumn = i * site.n / site.names.length;
      listOf(places, name).push({ key: siteKey(site), firstColumn });
    }
  }
  return places;
}

function listOf<Key, Item>(lists: Map<Key, Item[]>, key: Key): Item[] {
  const list = lists.get(key) ?? [];
  lists.set(key, list);
  return list;
}

export function checkChange(change: ModuleChange, module: AdaptableModule): void {
  const [rows] = module.shape as [number];
  const columns = elementCount(module.shape) / rows;
  for (const part of change.weight) {
    const [start, count] = part.rows ?? [0, rows];
    const size = sizeOf(part);
    if (start < 0 || start + count > rows || size?.[0] !== count || size[1] !== columns) {
      throw misfit(
        module,
        `rows ${start} to ${start + count} of its weight get a change of ${
          size ? formatShape(size) : "factors that do not fit each other"
        }`,
      );
    }
  }
  const { bias, magnitude } = change;
  if (bias && !(module.hasBias && elementCount(bias.shape) === rows)) {
    throw misfit(
      module,
      `its bias gets a change of ${elementCount(bias.shape)} elements, it has ${
        module.hasBias ? rows : "none"
      }`,
    );
  }
  if (magnitude) {
    const { over, lengths } = magnitude;
    const expected = over === "rows" ? rows : module.shape[1] ?? 1;
    if (elementCount(lengths.shape) !== expected) {
      throw misfit(
        module,
        `it gets ${elementCount(lengths.shape)} lengths of ${over}, it has ${expected}`,
      );
    }
  }
}

function sizeOf(change: WeightChange): [rows: number, columns: number] | undefined {
  switch (change.kind) {
    case "low-rank":
      return productSize([change.up, change.down]);
    case "hadamard": {
      const first = productSize([change.up[0], change.down[0]]);
      const second = productSize([change.up[1], change.down[1]]);
      const isAlike = first?.[0] === second?.[0] && first?.[1] === second?.[1];
      return isAlike ? first : undefined;
    }
    case "kronecker": {
      const [first, second] = change.factors.map(productSize);
      return first && second && [first[0] * second[0], first[1] * second[1]];
    }
    case "whole":
      return matrixShape(change.delta);
  }
}

function productSize(
  factors: readonly LoraTensor[],
): [rows: number, columns: number] | undefined {
  const [first, second] = factors.map(matrixShape);
  if (!first || !second) return first;
  return first[1] === second[0] ? [first[0], second[1]] : undefined;
}

function misfit({ name, shape }: AdaptableModule, what: string): RangeError {
  return new RangeError(
    `Cannot apply a LoRA to "${name}" of shape ${formatShape(shape)}: ${what}`,
  );
}
