/**
 * Lengths and a bias of the last key, which a dispatch may have or not have with the same kernel: software adapters compile one
 * for most of a second, and take next to no time for what is not there.
 */
import type { Graph, Tensor } from "../../graph/graph.ts";
import type { ParamValues } from "../../shaders/expand.ts";

/** What an attention takes besides its own operands. */
interface AskedOperands {
  /** Parameters of its kernel, besides those that it has. */
  readonly asked: ParamValues;
  /** Stand-ins, which are bound and not read. */
  readonly buffers: Readonly<Record<string, Tensor>>;
  /** Uniforms. */
  readonly params: Readonly<Record<string, number>>;
}

/** One integer per graph, that stands in for lengths. */
const integers = new WeakMap<Graph, Tensor>();

/**
 * An attention with both operands.
 *
 * @returns nothing where they would be more than the adapter binds, or it has a bias for every logit
 */
export function askedOperands(
  buffers: Readonly<Record<string, Tensor>> & { readonly q: Tensor },
): AskedOperands | undefined {
  const { q, bias, key_lengths: lengths, last_key_bias: lastBias } = buffers;
  const { graph } = q;
  const bindings = graph.bindingsOf([q, ...Object.values(buffers)]) + 1;
  if (bias || bindings > graph.target.limits.maxStorageBuffers || graph.bindingsOf([q]) > 1) {
    return undefined;
  }
  return {
    asked: { KEY_LENGTHS: true, LAST_KEY_BIAS: true, ASKS: true },
    buffers: {
      ...(lengths ? {} : { key_lengths: integerOf(graph) }),
      ...(lastBias ? {} : { last_key_bias: q }),
    },
    params: { has_key_lengths: Number(!!lengths), has_last_key_bias: Number(!!lastBias) },
  };
}

function integerOf(graph: Graph): Tensor {
  let integer = integers.get(graph);
  if (!integer) {
    integer = graph.constant("no lengths", [1], "u32", new Uint32Array(1));
    integers.set(graph, integer);
  }
  return integer;
}
