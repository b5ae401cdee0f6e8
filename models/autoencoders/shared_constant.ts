import type { DType, Graph, Shape, Tensor } from "../../runtime/mod.ts";

const known = new WeakMap<Graph, Map<string, Tensor>>();

/** A constant that many layers of a program share; `key` says which, and `values` are computed when they are uploaded. */
export function sharedConstant(
  graph: Graph,
  key: string,
  { shape, dtype, values }: {
    readonly shape: Shape;
    readonly dtype: DType;
    readonly values: () => ArrayLike<number>;
  },
): Tensor {
  const own = known.get(graph) ?? new Map<string, Tensor>();
  known.set(graph, own);
  const constant = own.get(key) ?? graph.constant(key, shape, dtype, values);
  own.set(key, constant);
  return constant;
}
