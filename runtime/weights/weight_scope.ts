import type { Graph, Tensor } from "../graph/graph.ts";
import type { LowRank } from "../ops/linear/low_rank.ts";
import type { Shape } from "../shape.ts";
import type { LinearSite } from "./adaptation.ts";
import type { StoredPart } from "./fill_weight.ts";
import type { WeightLayout } from "./storage.ts";
import type { Weights } from "./weights.ts";

/** A place in the tree of weight names: `weights.scope("blocks.0").tensor(graph, "attn1.to_q.weight", …)`. */
export class WeightScope {
  readonly #weights: Weights;
  readonly #prefix: string;

  /** Use {@linkcode Weights.root}. */
  constructor(weights: Weights, prefix: string) {
    this.#weights = weights;
    this.#prefix = prefix;
  }

  /** The names of the place, without the last dot. */
  get path(): string {
    return this.#prefix.slice(0, -1);
  }

  /** The place below, `name` and a dot added. */
  scope(name: string | number): WeightScope {
    return new WeightScope(this.#weights, `${this.#prefix}${name}.`);
  }

  /** True when the checkpoint has it. */
  has(name: string): boolean {
    return this.#weights.has(this.#prefix + name);
  }

  /** Declares a weight and brings it into a graph; see {@linkcode Weights.declare}. */
  tensor(graph: Graph, name: string, shape: Shape, layout: WeightLayout = "as-stored"): Tensor {
    return graph.use(this.#weights.declare(this.#prefix + name, shape, layout));
  }

  /**
   * The low-rank branch of linear layers that are computed in one product.
   *
   * @param site its names are those of the layers in this place
   */
  lowRank(graph: Graph, site: LinearSite): LowRank | undefined {
    const names = site.names.map((name) => this.#prefix + name);
    const tensors = this.#weights.lowRank({ ...site, names });
    return tensors && {
      down: graph.use(tensors.down),
      up: graph.use(tensors.up),
      scales: graph.use(tensors.scales),
    };
  }

  /** Declares weights that lie one after the other and brings them into a graph; see {@linkcode Weights.declareStack}. */
  stack(graph: Graph, parts: readonly StoredPart[]): Tensor | undefined {
    const tensor = this.#weights.declareStack(
      parts.map(({ name, shape }) => ({ name: this.#prefix + name, shape })),
    );
    return tensor && graph.use(tensor);
  }
}
