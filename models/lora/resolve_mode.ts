/** How LoRAs are brought in: beside the layers, or written into their weights. */
import { needsWriting, summedRank } from "./low_rank_form.ts";
import type { AdaptableComponent, AdaptableModule, Lora, LoraComponent } from "./types.ts";

/** Ranks that a layer takes beside it before `auto` writes LoRAs into its weight. */
const MAX_DYNAMIC_RANK = 128;

export interface ModeRequest {
  readonly lora: Lora;
  readonly targets: readonly LoraComponent[];
  readonly mode: "auto" | "merge" | "dynamic";
}

export interface ResolvedMode {
  readonly mode: "dynamic" | "merge";
  /** Why it is not, or not everywhere, as asked; one clause. */
  readonly note?: string;
}

interface ChangedLayer {
  readonly key: string;
  readonly isQuantised: boolean;
  readonly rank: number;
  /** Whether the layer's change is written into the weight, with no branch. */
  readonly isWritten: boolean;
}

/**
 * Decides for LoRAs that are used together. Layers without a low-rank branch are written, quantised ones are not, whatever
 * is asked; a LoRA that changes no others then has the other mode. `auto` merges LoRAs that stay for many requests
 * (`isStanding`), if the weights stay on the device, and those that change a layer which is not quantised with ranks above
 * {@linkcode MAX_DYNAMIC_RANK}.
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
