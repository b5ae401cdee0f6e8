import type { DType } from "../../dtype.ts";
import type { CaseInput, OpCase, OpSuite } from "../../conformance.ts";
import { type NdArray, ndarray, randomNormal } from "../ndarray.ts";
import { type Check, matrixCheck } from "../op.ts";
import { attention } from "./mod.ts";
import { ATTENTION_VARIANTS } from "./variants.ts";

interface AttentionCase {
  readonly batch?: number;
  readonly lq: number;
  readonly lk?: number;
  readonly heads?: number;
  readonly kvHeads?: number;
  readonly headDim: number;
  readonly dtype?: DType;
  readonly scale?: number;
  readonly causal?: boolean;
  /** Sizes of batch and head of the bias. */
  readonly bias?: readonly [number, number];
  readonly keyLengths?: readonly number[];
  readonly lastKeyBias?: readonly number[];
  /** Standard deviation of the queries. */
  readonly magnitude?: number;
  /** Changes the random bias. */
  readonly editBias?: (bias: NdArray) => void;
  readonly note?: string;
}

function attentionCase(spec: AttentionCase): OpCase {
  const {
    batch = 1,
    lq,
    lk = lq,
    heads = 1,
    kvHeads = heads,
    headDim,
    dtype = "f32",
    magnitude = 1,
    note,
  } = spec;
  const { scale, causal = false, bias, keyLengths, lastKeyBias } = spec;
  const inputs: Record<string, CaseInput> = {
    q: { values: randomNormal([batch, lq, heads, headDim], 1, magnitude), dtype },
    k: { values: randomNormal([batch, lk, kvHeads, headDim], 2), dtype },
    v: { values: randomNormal([batch, lk, kvHeads, headDim], 3), dtype },
  };
  if (bias) {
    const values = randomNormal([...bias, lq, lk], 4);
    spec.editBias?.(values);
    inputs["bias"] = { values, dtype: "f32" };
  }
  if (keyLengths) inputs["keyLengths"] = vector(keyLengths, "u32");
  if (lastKeyBias) inputs["lastKeyBias"] = vector(lastKeyBias, "f32");
  const parts = [
    `b${batch} q${lq} k${lk} h${heads}/${kvHeads} d${headDim} ${dtype}`,
    scale !== undefined && `scale ${scale}`,
    causal && "causal",
    bias && `bias [${bias}]`,
    keyLengths && `keyLengths [${keyLengths}]`,
    lastKeyBias && "lastKeyBias",
    note,
  ];
  return {
    name: parts.filter((part) => part).join(" "),
    inputs,
    build: ({ q, k, v, bias, keyLengths, lastKeyBias }) => [
      attention(q!, k!, v!, {
        ...(scale !== undefined && { scale }),
        causal,
        ...(bias && { bias }),
        ...(keyLengths && { keyLengths }),
        ...(lastKeyBias && { lastKeyBias }),
      }),
    ],
    reference: (
      arrays,
    ) => [attentionReference(arrays, { ...(scale !== undefined && { scale }), causal })],
    tolerance: 5e-5,
    // The weights of the softmax are rounded too.
    half: { inputs: ["q", "k", "v"], tolerance: 1e-3 },
  };
}

function vector(values: readonly number[], dtype: DType): CaseInput {
  return { values: ndarray([values.length], Float64Array.from(values)), dtype };
}

const HEADS_OF_128 = attentionCase({ lq: 67, lk: 33, heads: 2, kvHeads: 1, headDim: 128 });
const HEADS_OF_160 = attentionCase({ lq: 66, lk: 77, headDim: 160 });

/** Head sizes of diffusion models, lengths around the tiles, every change to the logits, and the hard numbers. */
export const ATTENTION_SUITE: OpSuite = {
  variants: ATTENTION_VARIANTS.filter(({ isSpare }) => !isSpare).map(({ name }) => name),
  cases: [
    attentionCase({ lq: 1, headDim: 16 }),
    attentionCase({ lq: 1, lk: 37, heads: 2, headDim: 32 }),
    attentionCase({ lq: 33, lk: 1, headDim: 32 }),
    attentionCase({ batch: 2, lq: 16, heads: 5, headDim: 32 }),
    attentionCase({ lq: 9, lk: 67, heads: 2, headDim: 12 }),
    attentionCase({ lq: 67, lk: 35, heads: 2, headDim: 40 }),
    attentionCase({ lq: 66, lk: 40, headDim: 64, dtype: "f16" }),
    attentionCase({ lq: 17, lk: 40, headDim: 64, dtype: "bf16" }),
    attentionCase({ lq: 34, lk: 29, headDim: 72 }),
    attentionCase({ lq: 66, lk: 77, headDim: 80 }),
    HEADS_OF_128,
    HEADS_OF_160,
    attentionCase({ batch: 2, lq: 13, heads: 6, kvHeads: 2, headDim: 16, scale: 1 }),
    attentionCase({ lq: 70, heads: 2, headDim: 32, causal: true }),
    attentionCase({ lq: 5, lk: 41, headDim: 32, causal: true }),
    attentionCase({ lq: 41, lk: 5, headDim: 32, causal: true, note: "with rows that see nothing" }),
    attentionCase({ batch: 2, lq: 21, lk: 38, heads: 3, headDim: 16, bias: [1, 3], scale: 1 }),
    attentionCase({ batch: 2, lq: 11, heads: 2, headDim: 16, bias: [2, 1] }),
    attentionCase({
      batch: 2,
      lq: 37,
      heads: 2,
      headDim: 16,
      bias: [1, 2],
      editBias: ({ data }) => data.forEach((_, i) => data[i] = i * 7 % 11 < 4 ? -Infinity : 0),
      note: "every third key hidden",
    }),
    attentionCase({ batch: 3, lq: 7, lk: 45, heads: 2, headDim: 32, keyLengths: [45, 1, 18] }),
    attentionCase({
      batch: 3,
      lq: 7,
      lk: 45,
      headDim: 32,
      keyLengths: [0, 100, 33],
      note: "empty and too long",
    }),
    attentionCase({
      batch: 2,
      lq: 18,
      lk: 40,
      heads: 2,
      headDim: 32,
      keyLengths: [33, 7],
      lastKeyBias: [3.9, 6.2],
    }),
    attentionCase({ lq: 8, lk: 9, headDim: 16, lastKeyBias: [2] }),
    attentionCase({
      batch: 2,
      lq: 10,
      lk: 36,
      heads: 2,
      headDim: 16,
      causal: true,
      bias: [1, 2],
      keyLengths: [36, 20],
    }),
    attentionCase({
      lq: 16,
      lk: 50,
      headDim: 32,
      scale: 1,
      magnitude: 2000,
      note: "logits of ±1e4",
    }),
    attentionCase({
      lq: 12,
      lk: 36,
      headDim: 16,
      bias: [1, 1],
      editBias: ({ data }) => data.fill(-Infinity, 3 * 36, 4 * 36),
      note: "with a row hidden altogether",
    }),
    attentionCase({
      lq: 6,
      lk: 36,
      headDim: 16,
      bias: [1, 1],
      editBias: ({ data }) => data.fill(-Infinity, 30, 2 * 36),
      note: "hidden by minus infinity",
    }),
    attentionCase({
      lq: 20,
      lk: 130,
      headDim: 32,
      bias: [1, 1],
      editBias: ({ data }) => data.forEach((value, i) => data[i] = value + (i % 13) + i % 130 / 8),
      note: "rising from key to key",
    }),
    attentionCase({ lq: 160, heads: 2, headDim: 32, note: "longer" }),
  ],
  heavy: [
    attentionCase({ batch: 2, lq: 261, lk: 520, headDim: 128, keyLengths: [520, 317] }),
    attentionCase({ lq: 520, lk: 1021, headDim: 72, lastKeyBias: [2] }),
    attentionCase({ lq: 523, lk: 523, heads: 2, headDim: 64, causal: true }),
  ],
};

/** What models use: the heads of large ones, and keys that padding hides. */
export const ATTENTION_CHECKS: readonly Check[] = [
  { name: "attention", cases: ATTENTION_SUITE.cases.slice(0, 2) },
  { name: "attention: heads of 128", cases: [HEADS_OF_128] },
  {
    name: "attention: padded keys",
    cases: [
      attentionCase({ batch: 2, lq: 7, lk: 45, heads: 2, headDim: 32, keyLengths: [45, 18] }),
    ],
  },
  matrixCheck("attention", "matrix", [HEADS_OF_128]),
];

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
