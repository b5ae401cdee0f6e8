import { growSizes, type Op, raceInput, type RaceProblem } from "../op.ts";
import { ATTENTION_CHECKS, ATTENTION_SUITE } from "./cases.ts";
import { attention } from "./mod.ts";

function race(
  priority: RaceProblem["priority"],
  [lq, lk]: readonly [number, number],
  heads: number,
  headDim: number,
): RaceProblem {
  const inputs = (lq: number, lk: number, heads: number) => {
    const keys = raceInput([1, lk, heads, headDim]);
    return [raceInput([1, lq, heads, headDim]), keys, keys];
  };
  return {
    priority,
    inputs: inputs(lq, lk, heads),
    // More heads; of the largest class also more tokens, each of which meets all others.
    grow: (factor) => {
      const isOpen = lq > 1024;
      const sizes = [heads, lq, lq];
      const limits = isOpen ? [32, 8192, 8192] : [64, lq, lq];
      const [moreHeads, a, b] = growSizes(sizes, limits, factor) as [number, number, number];
      const tokens = Math.min(a, b);
      return isOpen ? inputs(tokens, tokens, moreHeads) : inputs(lq, lk, moreHeads);
    },
    build: (q, k, v) => attention(q!, k!, v!),
  };
}

/** `attention` with its tables. */
export const ATTENTION: Op = {
  name: "attention",
  suites: [ATTENTION_SUITE],
  checks: ATTENTION_CHECKS,
  races: [
    race(1, [1024, 1024], 8, 64),
    race(1, [1024, 1024], 4, 128),
    race(2, [1024, 77], 8, 64),
    race(2, [256, 77], 4, 128),
    race(2, [64, 64], 8, 64),
    race(3, [2048, 2048], 8, 128),
  ],
  benches: {
    attention: {
      sizes: ["TOKENS", "HEADS", "HEAD_DIM"],
      describe([tokens, heads, headDim]) {
        const all = [1, tokens!, heads!, headDim!];
        return {
          inputs: [all, all, all],
          output: all,
          flops: 4 * heads! * tokens! ** 2 * headDim!,
        };
      },
      build: (q, k, v) => attention(q!, k!, v!),
    },
    cross_attention: {
      sizes: ["TOKENS", "KEYS", "HEADS", "HEAD_DIM"],
      describe([tokens, keys, heads, headDim]) {
        const [queries, others] = [[1, tokens!, heads!, headDim!], [1, keys!, heads!, headDim!]];
        return {
          inputs: [queries, others, others],
          output: queries,
          flops: 4 * heads! * tokens! * keys! * headDim!,
        };
      },
      build: (q, k, v) => attention(q!, k!, v!),
    },
  },
};
