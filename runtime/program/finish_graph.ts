/** What is done to a graph once all of it is traced. */
import type { Graph } from "../graph/graph.ts";
import { storeFactorsAsHalf } from "./half_results.ts";
import { elideJoins } from "./join_elision.ts";

/** Spares copies, and bytes of what may be rounded; see {@linkcode elideJoins} and {@linkcode storeFactorsAsHalf}. */
export function finishGraph(graph: Graph): void {
  elideJoins(graph);
  storeFactorsAsHalf(graph);
}
