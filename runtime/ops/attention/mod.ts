import { isFloat } from "../../dtype.ts";
import type { Graph, Tensor } from "../../graph/graph.ts";
import type { ParamValues } from "../../shaders/expand.ts";
import { mayRoundToHalf } from "../matrix_unit.ts";
import { attentionClass } from "../problem_class.ts";
import { chooseVariant } from "../variants.ts";
import { ATTENTION_VARIANTS } from "./variants.ts";

/** Optional parts of an attention. */
export interface AttentionOptions {
  /** Factor of the products; 1 / sqrt(D) by default. */
  readonly scale?: number;
  /** Key j is seen by query i only when j <= i + Lk - Lq. */
  readonly causal?: boolean;
  /** Added to the logits: f32 [1|B, 1|H, Lq, Lk]. */
  readonly bias?: Tensor;
  /** u32 [B]: keys from there on are hidden. */
  readonly keyLengths?: Tensor;
  /** f32 [B]: added to the logit of the last key within `keyLengths`, which so can stand for many equal ones. */
  readonly lastKeyBias?: Tensor;
  /** Name of the result, for messages. */
  readonly name?: string;
}

/** Largest head: its queries and sums are held in registers. */
const MAX_HEAD_DIM = 160;

/**
 * y = softmax(scale * q · kᵀ + bias) · v per head, in f32; the scores are never stored.
 *
 * Head h of q uses head floor(h / (H / Hkv)) of k and v. A logit at or below -1e30 hides its key; a query that
 * sees no key gives zeros.
 *
 * @param q [B, Lq, H, D], any float dtype; D a multiple of 4 up to 160
 * @param k [B, Lk, Hkv, D] with H a multiple of Hkv
 * @param v like k
 * @returns f32 [B, Lq, H, D]
 * @throws {RangeError} when the shapes do not fit together
 */
export function attention(q: Tensor, k: Tensor, v: Tensor, options: AttentionOptions = {}): Tensor {
  const { causal = false, bias, keyLengths, lastKeyBias } = options;
  const label = `Cannot attend with q ${q}, k ${k}, v ${v}`;
  if (q.rank !== 4 || k.rank !== 4 || k.shape.join() !== v.shape.join()) {
    throw new RangeError(`${label}: it needs [B, Lq, H, D] and twice [B, Lk, Hkv, D]`);
  }
  const [batch, lq, heads, headDim] = [q.dim(0), q.dim(1), q.dim(2), q.dim(3)];
  const [lk, kvHeads] = [k.dim(1), k.dim(2)];
  if (k.dim(0) !== batch || k.dim(3) !== headDim || heads % kvHeads !== 0) {
    throw new RangeError(`${label}: batch and head size must be equal, H a multiple of Hkv`);
  }
  if (headDim % 4 !== 0 || headDim > MAX_HEAD_DIM) {
    throw new RangeError(`${label}: the head size must be a multiple of 4 up to ${MAX_HEAD_DIM}`);
  }
  for (const tensor of [q, k, v, bias, lastKeyBias]) {
    if (tensor && !isFloat(tensor.dtype)) {
      throw new RangeError(`${label}: ${tensor} must be f32, f16 or bf16`);
    }
  }
  if (keyLengths && keyLengths.dtype !== "u32") {
    throw new RangeError(`${label}: ${keyLengths} must be u32`);
  }
  for (const tensor of [keyLengths, lastKeyBias]) {
    if (tensor && tensor.size !== batch) {
      throw new RangeError(`${label}: ${tensor} must be [${batch}]`);
    }
  }
  const biasSteps = bias && logitStrides(label, bias, [batch, heads, lq, lk]);
  if (bias && biasSteps![2] === 0 && lq > 1) {
    throw new RangeError(`${label}: bias ${bias} must have ${lq} rows`);
  }
  const { graph } = q;
  const y = graph.tensor(options.name ?? "attention", q.shape);
  const logits = {
    CAUSAL: causal,
    BIAS: bias !== undefined,
    KEY_LENGTHS: keyLengths !== undefined,
    LAST_KEY_BIAS: lastKeyBias !== undefined,
  };
  const mayRound = mayRoundToHalf("attention", graph, y.name);
  const products = batch * heads * lq * lk * headDim;
  const problem = { lq, headDim, products, logits, mayRound };
  const problemClass = attentionClass({ queries: lq, keys: lk, headDim });
  const variant = chooseVariant(
    "attention",
    ATTENTION_VARIANTS,
    problem,
    graph.target,
    problemClass,
  );
  const buffers = {
    q,
    k,
    v,
    ...(bias && { bias }),
    ...(keyLengths && { key_lengths: keyLengths }),
    ...(lastKeyBias && { last_key_bias: lastKeyBias }),
    y,
  };
  const more = variant.asks?.(problem) && graph.target.schedule === "cpu" && !causal
    ? askedOperands(buffers)
    : undefined;
  const { kernel, rows } = variant.plan(
    { ...problem, logits: { ...logits, ...more?.asked } },
    graph.target,
  );
  graph.dispatch({
    kernel,
    buffers: { ...buffers, ...more?.buffers },
    params: {
      lq,
      lk,
      heads,
      kv_heads: kvHeads,
      scale: (options.scale ?? 1 / Math.sqrt(headDim)) * Math.LOG2E,
      ...more?.params,
      ...(biasSteps && { bias_batch: biasSteps[0], bias_head: biasSteps[1] }),
    },
    workgroups: [Math.ceil(lq / rows), heads, batch],
    layer: y.name,
    factors: mayRound ? ["q", "k", "v"] : undefined,
    flops: 4 * products,
  });
  return y;
}

/** Strides of batch, head and row, in elements, of a tensor that broadcasts to the shape of the logits. */
function logitStrides(
  label: string,
  tensor: Tensor,
  shape: readonly number[],
): [number, number, number] {
  const fits = tensor.rank === 4 && tensor.dim(3) === shape[3] &&
    tensor.shape.every((size, axis) => size === 1 || size === shape[axis]);
  if (!fits) throw new RangeError(`${label}: ${tensor} must broadcast to [${shape.join(", ")}]`);
  const [batch, heads, rows, keys] = [tensor.dim(0), tensor.dim(1), tensor.dim(2), tensor.dim(3)];
  return [
    batch === 1 ? 0 : heads * rows * keys,
    heads === 1 ? 0 : rows * keys,
    rows === 1 ? 0 : keys,
  ];
}

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

/** An attention with both operands. */
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
