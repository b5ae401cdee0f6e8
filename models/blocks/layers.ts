/** Layers that many models share: an op together with the names of its weights. */
import {
  type Activation,
  attention,
  concat,
  conv2d,
  type Conv2dOptions,
  elementwise,
  gather,
  isFloat,
  type LayerNormOptions,
  linear,
  type LinearOptions,
  matmul,
  slice,
  softmax,
  type Tensor,
  type WeightScope,
} from "../../runtime/mod.ts";

/** `x` [..., in] to [..., outFeatures], by `name.weight`, maybe `name.bias`, and the low-rank branch of LoRAs. */
export function linearLayer(
  weights: WeightScope,
  name: string,
  x: Tensor,
  outFeatures: number,
  options: Omit<LinearOptions, "bias" | "lowRank"> = {},
): Tensor {
  const scope = weights.scope(name);
  const lowRank = weights.lowRank(x.graph, {
    names: [name],
    n: outFeatures,
    k: x.dim(-1),
    taps: 1,
  });
  const weight = scope.tensor(x.graph, "weight", [outFeatures, x.dim(-1)]);
  const bias = scope.has("bias") ? { bias: scope.tensor(x.graph, "bias", [outFeatures]) } : {};
  return linear(x, weight, { name, ...options, ...bias, ...(lowRank && { lowRank }) });
}

export function embeddingLayers(weights: WeightScope, x: Tensor, features: number): Tensor {
  const hidden = linearLayer(weights, "linear_1", x, features, { activation: "silu" });
  return linearLayer(weights, "linear_2", hidden, features);
}

/** A convolution whose stride is its kernel, as a linear layer on patches, [..., (row, column, channel)]. */
export function patchEmbeddingLayer(
  weights: WeightScope,
  name: string,
  patches: Tensor,
  outFeatures: number,
  { channels, patch }: { readonly channels: number; readonly patch: readonly number[] },
): Tensor {
  const { graph } = patches;
  const scope = weights.scope(name);
  const [n, k] = [outFeatures, patches.dim(-1)];
  const weight = scope.tensor(graph, "weight", [n, channels, ...patch], "channels-last");
  const lowRank = weights.lowRank(graph, { names: [name], n, k, taps: k / channels });
  return linear(patches, weight.reshape(n, k), {
    name,
    ...(scope.has("bias") && { bias: scope.tensor(graph, "bias", [n]) }),
    ...(lowRank && { lowRank }),
  });
}

/** A convolution of 3 x 3, [batch, height, width, channels], that keeps the size unless `options` say otherwise. */
export function convolutionLayer(
  weights: WeightScope,
  name: string | number,
  x: Tensor,
  outChannels: number,
  options: Conv2dOptions = {},
): Tensor {
  const scope = weights.scope(name);
  const shape = [outChannels, x.dim(-1), 3, 3];
  return conv2d(x, scope.tensor(x.graph, "weight", shape, "channels-last"), {
    ...(!options.bias && scope.has("bias") && {
      bias: scope.tensor(x.graph, "bias", [outChannels]),
    }),
    padding: [1, 1, 1, 1],
    name: String(name),
    ...options,
  });
}

/** Linear layers of equal sizes on one input, [layers, ..., outFeatures]; one product if stored alike. */
export function linearLayers(
  weights: WeightScope,
  names: readonly string[],
  x: Tensor,
  outFeatures: number,
  options: Pick<LinearOptions, "norm"> = {},
): Tensor {
  const stack = (part: string, shape: readonly number[]) =>
    weights.stack(x.graph, names.map((name) => ({ name: `${name}.${part}`, shape })));
  const biased = names.filter((name) => weights.scope(name).has("bias")).length;
  const isAlike = outFeatures % 4 === 0 && (biased === 0 || biased === names.length);
  const weight = isAlike ? stack("weight", [outFeatures, x.dim(-1)]) : undefined;
  const bias = weight && biased > 0 ? stack("bias", [outFeatures]) : undefined;
  if (!weight || (biased > 0 && !bias)) {
    const results = names.map((name) => linearLayer(weights, name, x, outFeatures, options));
    return concat(results.map((y) => y.reshape(1, ...y.shape)), 0);
  }
  const lowRank = weights.lowRank(x.graph, {
    names,
    n: names.length * outFeatures,
    k: x.dim(-1),
    taps: 1,
  });
  return linear(x, weight, {
    name: names.join("+"),
    parts: names.length,
    ...(lowRank && { lowRank }),
    ...options,
    ...(bias && { bias: bias.reshape(-1) }),
  });
}

export function forEachSample(x: Tensor, batch: number): Tensor {
  if (x.dim(0) === batch) return x;
  if (!isFloat(x.dtype)) return concat(new Array<Tensor>(batch).fill(x), 0);
  const first = x.graph.constant("first sample", [batch], "u32", new Uint32Array(batch));
  return gather(x.reshape(1, -1), first).reshape(batch, ...x.shape.slice(1));
}

/**
 * activation(gate layer) * up layer, [..., features]; one product on GPUs if the weights fit into one binding as f32.
 * Source: Shazeer 2020, "GLU Variants Improve Transformer".
 */
export function gluLayer(
  weights: WeightScope,
  names: readonly [gate: string, up: string],
  x: Tensor,
  features: number,
  activation: Activation,
  options: Pick<LinearOptions, "norm"> = {},
): Tensor {
  const { schedule, limits } = x.graph.target;
  const shape = [features, x.dim(-1)];
  const fits = 4 * 2 * features * x.dim(-1) <= limits.maxBindingBytes;
  const stack = (part: string, shape: readonly number[]) =>
    weights.stack(x.graph, names.map((name) => ({ name: `${name}.${part}`, shape })));
  const isOne = schedule === "gpu" && features % 4 === 0 && fits;
  const isBiased = names.some((name) => weights.scope(name).has("bias"));
  const weight = isOne ? stack("weight", shape) : undefined;
  const bias = weight && isBiased ? stack("bias", [features]) : undefined;
  if (!weight || (isBiased && !bias)) {
    const [gateName, upName] = names;
    const gate = linearLayer(weights, gateName, x, features, { activation, ...options });
    return linearLayer(weights, upName, x, features, { gate, ...options });
  }
  const lowRank = weights.lowRank(x.graph, { names, n: 2 * features, k: x.dim(-1), taps: 1 });
  return linear(x, weight, {
    name: names.join("*"),
    activation,
    glu: "first",
    ...(lowRank && { lowRank }),
    ...(bias && { bias: bias.reshape(-1) }),
    ...options,
  });
}

/**
 * activation(gate) * value of one layer that makes both, [..., features]; `activated` is the half of its rows that gates.
 * One product on GPUs.
 */
export function packedGluLayer(
  weights: WeightScope,
  name: string,
  x: Tensor,
  features: number,
  { activation, activated, norm }: {
    readonly activation: Activation;
    readonly activated: "first" | "second";
    readonly norm?: LayerNormOptions;
  },
): Tensor {
  const normed = norm && { norm };
  if (x.graph.target.schedule === "gpu") {
    return linearLayer(weights, name, x, 2 * features, { ...normed, activation, glu: activated });
  }
  const halves = linearLayer(weights, name, x, 2 * features, { ...normed, parts: 2 });
  const [a, b] = [0, 1].map((i) => slice(halves, 0, i, i + 1)) as [Tensor, Tensor];
  const [gate, value] = activated === "first" ? [a, b] : [b, a];
  return elementwise(`act_${activation}(gate) * value`, { gate, value }, { name: "glu" })
    .reshape(...x.shape.with(-1, features));
}

/** Widest head that the fused attention kernels take. */
const MAX_HEAD_DIM = 160;
/** Bytes of attention scores that are held at a time for wider heads, unless one row takes more. */
const SCORE_BYTES = 64 * 1024 * 1024;

interface WideAttentionOptions {
  readonly scoreBytes?: number | undefined;
  /** f32 [1, 1, keys]: added to the scores. */
  readonly hidden?: Tensor | undefined;
}

/** Attention, [batch, tokens, dim]; heads above 160, and with `hidden` all, compute their scores by row tiles of `scoreBytes`. */
export function wideAttention(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  { scoreBytes = SCORE_BYTES, hidden }: WideAttentionOptions = {},
): Tensor {
  const [batch, tokens, dim] = query.shape as [number, number, number];
  if (dim <= MAX_HEAD_DIM && dim % 4 === 0 && !hidden) {
    const [q, k, v] = [query, key, value].map((x) => x.reshape(batch, x.dim(1), 1, dim)) as [
      Tensor,
      Tensor,
      Tensor,
    ];
    return attention(q, k, v).reshape(...query.shape);
  }
  const rows = Math.max(1, Math.min(tokens, Math.floor(scoreBytes / (4 * batch * key.dim(1)))));
  const tiles: Tensor[] = [];
  for (let start = 0; start < tokens; start += rows) {
    const part = slice(query, 1, start, Math.min(tokens, start + rows));
    const products = matmul(part, key, { transposeB: true, scale: dim ** -0.5 });
    const scores = hidden ? elementwise("s + h", { s: products, h: hidden }) : products;
    tiles.push(matmul(softmax(scores), value));
  }
  return tiles.length === 1 ? tiles[0]! : concat(tiles, 1);
}
