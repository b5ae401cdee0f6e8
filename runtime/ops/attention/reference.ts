import { type NdArray, ndarray } from "../ndarray.ts";

/** Parts of an attention that are not arrays. */
interface AttentionReferenceOptions {
  readonly scale?: number;
  readonly causal?: boolean;
}

/** y = softmax(scale * q · kᵀ + bias) · v in double precision; arrays as the op takes them. */
export function attentionReference(
  arrays: Readonly<Record<string, NdArray>>,
  options: AttentionReferenceOptions = {},
): NdArray {
  const { q, k, v, bias, keyLengths, lastKeyBias } = arrays;
  const [batch, lq, heads, headDim] = q!.shape as [number, number, number, number];
  const [, lk, kvHeads] = k!.shape as [number, number, number];
  const scale = options.scale ?? 1 / Math.sqrt(headDim);
  const y = ndarray(q!.shape);
  for (let b = 0; b < batch; b++) {
    const length = Math.min(lk, keyLengths?.data[b] ?? lk);
    for (let h = 0; h < heads; h++) {
      const kvHead = Math.floor(h / (heads / kvHeads));
      for (let i = 0; i < lq; i++) {
        const at = ((b * lq + i) * heads + h) * headDim;
        const row = (j: number) => ((b * lk + j) * kvHeads + kvHead) * headDim;
        const logits: number[] = [];
        for (let j = 0; j < length; j++) {
          const isHidden = options.causal && j > i + lk - lq;
          let dot = 0;
          for (let d = 0; d < headDim; d++) dot += q!.data[at + d]! * k!.data[row(j) + d]!;
          const last = j === length - 1 ? (lastKeyBias?.data[b] ?? 0) : 0;
          logits.push(
            isHidden
              ? -Infinity
              : scale * dot + last + (bias ? broadcastValue(bias, b, h, i, j) : 0),
          );
        }
        const top = Math.max(...logits);
        if (!Number.isFinite(top)) continue;
        const weights = logits.map((logit) => Math.exp(logit - top));
        const total = weights.reduce((sum, weight) => sum + weight, 0);
        for (let d = 0; d < headDim; d++) {
          y.data[at + d] = weights.reduce((sum, weight, j) =>
            sum + weight * v!.data[row(j) + d]!, 0) / total;
        }
      }
    }
  }
  return y;
}

/** The element of a 4-dimensional array whose sizes of 1 are repeated. */
function broadcastValue({ shape, data }: NdArray, ...index: number[]): number {
  return data[index.reduce((at, i, axis) => at * shape[axis]! + (shape[axis] === 1 ? 0 : i), 0)]!;
}
