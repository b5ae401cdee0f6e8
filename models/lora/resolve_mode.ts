/** How LoRAs are brought in: beside the layers, or written into their weights. */
import { needsWriting, summedRank } from "./low_rank_form.ts";
import type { AdaptableComponent, AdaptableModule, Lora, LoraComponent } from "./types.ts";

/** Ranks that a layer takes beside it before `auto` writes LoRAs into its weight. */
const MAX_DYNAMIC_RANK = 128;

/** A LoRA, and how it is asked to be brought in. */
export interface ModeRequest {
  readonly lora: Lora;
  /** Changes of other targets are omitted. */
  readonly targets: readonly LoraComponent[];
  readonly mode: "auto" | "merge" | "dynamic";
}

/** How a LoRA is brought in. */
export interface ResolvedMode {
  readonly mode: "dynamic" | "merge";
  /** Why it is not, or not everywhere, as asked; one clause. */
  readonly note?: string;
}

/** A layer that a LoRA changes. */
interface ChangedLayer {
  /** Target and name. */
  readonly key: string;
  readonly isQuantised: boolean;
  /** Ranks of its branch. */
  readonly rank: number;
  /** Whether the layer's change is written into the weight, with no branch. */
  readonly isWritten: boolean;
}

/**
 * Decides for LoRAs that are used together.
 *
 * - `dynamic` stays so, but layers that are changed in a way that has no low-rank branch are written; a LoRA that
 *   has no others is merged.
 * - `merge` writes the layers that are not quantised: rounding to blocks again would not be exact. Quantised ones get
 *   a branch, and a LoRA that has no others is dynamic.
 * - `auto` is `merge` for LoRAs that stay for many requests, where the weights of the components that they change are
 *   on the device all the time: then merging costs once what a branch costs in every step. Elsewhere it is `dynamic`
 *   unless the LoRA changes a layer that is not quantised, where the ranks of all that are not to be merged come to
 *   more than {@linkcode MAX_DYNAMIC_RANK}.
 *
 * @param isStanding whether the LoRAs stay for many requests
 * @returns for each LoRA, in their order
 */
export function resolveModes(
  uses: readonly ModeRequest[],
  components: readonly AdaptableComponent[],
  isStanding = false,
): readonly ResolvedMode[] {
  const modules = new Map(
    components.flatMap(({ target, modules }) =>
      modules.map((module) => [layerKey(target, module.name), module] as const)
    ),
  );
  const layers = uses.map((use) => changedLayers(use, modules));
  const ranks = new Map<string, number>();
  for (const [i, use] of uses.entries()) {
    if (use.mode === "merge") continue;
    for (const { key, rank } of layers[i]!) ranks.set(key, (ranks.get(key) ?? 0) + rank);
  }
  const away = new Set(
    components.filter(({ isResident }) => !isResident).map(({ target }) => target),
  );
  return uses.map(({ mode, lora, targets }, i) => {
    const own = layers[i]!;
    const staysThere = isStanding &&
      !lora.changes.some(({ target }) => targets.includes(target) && away.has(target));
    const isWide = own.some(({ key, rank, isQuantised }) =>
      !isQuantised && rank > 0 && ranks.get(key)! > MAX_DYNAMIC_RANK
    );
    const isMerged = mode === "merge" || (mode === "auto" && (isWide || staysThere));
    return isMerged ? merged(own, mode) : dynamic(own, mode);
  });
}

function merged(layers: readonly ChangedLayer[], mode: ModeRequest["mode"]): ResolvedMode {
  const beside = layers.filter(({ isQuantised, isWritten }) => isQuantised && !isWritten).length;
  if (beside === 0) return { mode: "merge" };
  if (mode === "auto" && beside === layers.length) return { mode: "dynamic" };
  const note =
    `${beside} of ${layers.length} layers are stored quantised, which merging would round; ` +
    "they are changed beside their weights";
  return { mode: beside === layers.length ? "dynamic" : "merge", note };
}

function dynamic(layers: readonly ChangedLayer[], mode: ModeRequest["mode"]): ResolvedMode {
  const written = layers.filter(({ isWritten }) => isWritten).length;
  if (written === 0) return { mode: "dynamic" };
  const isAll = written === layers.length;
  const note = `${written} of ${layers.length} layers are written into their weights: ` +
    "their changes have no low-rank form";
  return { mode: isAll ? "merge" : "dynamic", ...(!(isAll && mode === "auto") && { note }) };
}

function changedLayers(
  { lora, targets }: ModeRequest,
  modules: ReadonlyMap<string, AdaptableModule>,
): ChangedLayer[] {
  const layers: ChangedLayer[] = [];
  for (const change of lora.changes) {
    const key = layerKey(change.target, change.module);
    const module = modules.get(key);
    if (!module || !targets.includes(change.target) || isBiasOnly(change)) continue;
    const { isQuantised } = module;
    const isWritten = needsWriting(change, module);
    layers.push({ key, isQuantised, isWritten, rank: isWritten ? 0 : summedRank(change) });
  }
  return layers;
}

function isBiasOnly({ weight, magnitude }: Lora["changes"][number]): boolean {
  return weight.length === 0 && magnitude === undefined;
}

function layerKey(target: LoraComponent, module: string): string {
  return `${target} ${module}`;
}
