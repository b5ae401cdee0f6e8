/** One component of a model, and what LoRAs make of its weights. */
import type {
  Device,
  LinearSite,
  LowRankTensors,
  ScaledProduct,
  TensorRewrite,
  Weights,
} from "../../runtime/mod.ts";
import { biasRewrite, type MatrixRows, type RowChange, weightRewrite } from "./deltas.ts";
import { branchRank } from "./low_rank_form.ts";
import { PackedLayer, productOf } from "./packed_layer.ts";
import { type ComponentPlan, planComponent, siteKey, type WeightedChange } from "./plan.ts";
import type { AdaptableComponent, AdaptableModule, AppliedLora } from "./types.ts";

export type PackedLayers = ReadonlyMap<string, PackedLayer>;

/** A component that LoRAs can change. It learns its products from the graphs that are traced with its weights. */
export class AdaptedComponent {
  readonly #about: Omit<AdaptableComponent, "isResident">;
  readonly #weights: Weights;
  readonly #sites = new Map<string, LinearSite>();
  readonly #own: AppliedLora | undefined;
  #packed: PackedLayers = new Map();
  #prepared: { changes: readonly WeightedChange[]; change: RowChange } | undefined;

  /** `own` is what its file adds to the weights of another component; requests change nothing of it then. */
  constructor(
    weights: Weights,
    about: Omit<AdaptableComponent, "modules" | "isResident">,
    own?: AppliedLora,
  ) {
    this.#weights = weights;
    this.#own = own;
    this.#about = { ...about, modules: modulesOf(weights) };
    weights.useLowRank((site) => this.#branchOf(site));
  }

  get info(): AdaptableComponent {
    const isResident = this.#weights.deviceTensors.every(({ isAllocated }) => isAllocated);
    return { ...this.#about, isResident };
  }

  /** Whether requests can change it. */
  get isFree(): boolean {
    return this.#own === undefined;
  }

  plan(loras: readonly AppliedLora[]): ComponentPlan {
    return planComponent(this.info, this.#sites.values(), this.#own ? [this.#own] : loras);
  }

  pack({ branches }: ComponentPlan): PackedLayers {
    return new Map(
      [...branches].map(([key, list]) => [key, new PackedLayer(this.#sites.get(key)!, list)]),
    );
  }

  use(packed: PackedLayers): void {
    this.#packed = packed;
  }

  async write({ weights, biases }: ComponentPlan, device: Device): Promise<void> {
    const rewrites = new Map<string, TensorRewrite>();
    for (const [module, changes] of weights) {
      const name = this.#tensorOf(module);
      const stored = () => this.#storedRows(name, columnsOf(module));
      rewrites.set(
        name,
        {
          ...this.#rewrite(changes, columnsOf(module), () => weightRewrite(changes, stored)),
          ...productsOf(changes, module),
        },
      );
    }
    for (const [module, changes] of biases) {
      const name = `${module.name}.bias`;
      rewrites.set(name, this.#rewrite(changes, 1, () => biasRewrite(changes)));
    }
    try {
      await this.#weights.rewrite(rewrites, device);
    } finally {
      this.#prepared = undefined;
    }
  }

  #tensorOf({ name }: AdaptableModule): string {
    return this.#weights.has(`${name}.weight`) ? `${name}.weight` : name;
  }

  #rewrite(
    changes: readonly WeightedChange[],
    columns: number,
    prepare: () => RowChange,
  ): TensorRewrite {
    return {
      key: JSON.stringify(changes.map(({ lora: { key, strength } }) => [key, strength])),
      apply: (values, firstRow) => {
        // Weights are also filled between writes: the same tensor may have had other changes since.
        if (this.#prepared?.changes !== changes) this.#prepared = { changes, change: prepare() };
        this.#prepared.change({ values, firstRow, columns });
      },
    };
  }

  *#storedRows(name: string, columns: number): Generator<MatrixRows> {
    for (const { rows, firstRow } of this.#weights.storedRows(name)) {
      yield { values: rows, firstRow, columns };
    }
  }

  #branchOf(site: LinearSite): LowRankTensors | undefined {
    const key = siteKey(site);
    this.#sites.set(key, site);
    return this.#packed.get(key)?.tensors;
  }
}

/** Widest product that is formed of factors that are no low-rank ones, for the device to add. */
const MAX_FORMED_RANK = 1024;

/** What changes add to a weight as products, where all of them are some. */
function productsOf(
  changes: readonly WeightedChange[],
  { shape }: AdaptableModule,
): Pick<TensorRewrite, "products"> {
  const products: ScaledProduct[] = [];
  for (const { change, lora: { strength } } of changes) {
    if (change.magnitude) return {};
    for (const part of change.weight) {
      const rank = branchRank(part);
      if (rank === undefined || (part.kind !== "low-rank" && rank > MAX_FORMED_RANK)) return {};
      products.push({
        ...productOf(part, rank, part.rows ?? [0, shape[0]!]),
        scale: part.scale * strength,
      });
    }
  }
  return { products };
}

function columnsOf({ shape: [, ...others] }: AdaptableModule): number {
  return others.reduce((product, size) => product * size, 1);
}

/** Everything that has a weight, and parameters that have none: tables are modules of their own. */
function modulesOf(weights: Weights): AdaptableModule[] {
  return [...weights.tensors()].filter(({ name }) => !name.endsWith(".bias"))
    .map(({ name, shape, isQuantised }) => {
      const module = name.replace(/\.weight$/, "");
      return { name: module, shape, hasBias: weights.has(`${module}.bias`), isQuantised };
    });
}
