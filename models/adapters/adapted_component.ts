/** One component of a model, and what adapters make of its weights. */
import type {
  Device,
  LinearSite,
  LowRankResidents,
  TensorRewrite,
  Weights,
} from "../../runtime/mod.ts";
import { biasRewrite, type MatrixRows, type RowChange, weightRewrite } from "./deltas.ts";
import { PackedLayer } from "./packed_layer.ts";
import { type ComponentPlan, planComponent, siteKey, type WeightedChange } from "./plan.ts";
import type { AdaptableComponent, AdaptableModule, AppliedAdapter } from "./types.ts";

/** Branches by {@linkcode siteKey}. */
export type PackedLayers = ReadonlyMap<string, PackedLayer>;

/** See the file comment. It learns which products there are from the graphs that are traced with its weights. */
export class AdaptedComponent {
  /** Its modules as adapters see them. */
  readonly info: AdaptableComponent;
  readonly #weights: Weights;
  readonly #sites = new Map<string, LinearSite>();
  #packed: PackedLayers = new Map();
  /** What was made of the factors for the tensor that is being written. */
  #prepared: { changes: readonly WeightedChange[]; change: RowChange } | undefined;

  /** Takes over what the weights are adapted by. */
  constructor(weights: Weights, about: Omit<AdaptableComponent, "modules">) {
    this.#weights = weights;
    this.info = { ...about, modules: modulesOf(weights) };
    weights.useLowRank((site) => this.#branchOf(site));
  }

  /** See {@linkcode planComponent}. */
  plan(adapters: readonly AppliedAdapter[]): ComponentPlan {
    return planComponent(this.info, this.#sites.values(), adapters);
  }

  /** Declares the branches of a plan; nothing is allocated. */
  pack({ branches }: ComponentPlan): PackedLayers {
    return new Map(
      [...branches].map(([key, list]) => [key, new PackedLayer(this.#sites.get(key)!, list)]),
    );
  }

  /** Gives what is traced from now on these branches. */
  use(packed: PackedLayers): void {
    this.#packed = packed;
  }

  /**
   * Writes what a plan wants written, and gives everything else back what the files hold; see
   * {@linkcode Weights.rewrite}.
   */
  async write({ weights, biases }: ComponentPlan, device: Device): Promise<void> {
    const rewrites = new Map<string, TensorRewrite>();
    for (const [module, changes] of weights) {
      const name = this.#tensorOf(module);
      const stored = () => this.#storedRows(name, columnsOf(module));
      rewrites.set(
        name,
        this.#rewrite(changes, columnsOf(module), () => weightRewrite(changes, stored)),
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
      key: JSON.stringify(changes.map(({ adapter: { key, strength } }) => [key, strength])),
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

  #branchOf(site: LinearSite): LowRankResidents | undefined {
    const key = siteKey(site);
    this.#sites.set(key, site);
    return this.#packed.get(key)?.residents;
  }
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
