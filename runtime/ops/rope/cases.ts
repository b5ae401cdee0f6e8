import type { DType } from "../../dtype.ts";
import type { OpCase, OpSuite } from "../../conformance.ts";
import { randomNormal } from "../ndarray.ts";
import { rope, type RopeStyle } from "./mod.ts";
import { ropeReference } from "./reference.ts";

function ropeCase(
  style: RopeStyle,
  shape: number[],
  batched = false,
  dtype: DType = "f32",
): OpCase {
  const [batch, length, , size] = shape as [number, number, number, number];
  const table = [...(batched ? [batch] : []), length, size / 2];
  return {
    name: `${style} x [${shape}] tables [${table}] ${dtype}`,
    inputs: {
      x: { values: randomNormal(shape, 1), dtype: "f32" },
      cos: { values: randomNormal(table, 2), dtype },
      sin: { values: randomNormal(table, 3), dtype },
    },
    build: ({ x, cos, sin }) => [rope(x!, cos!, sin!, { style })],
    reference: ({ x, cos, sin }) => [ropeReference(x!, cos!, sin!, style)],
    tolerance: 1e-6,
  };
}

/** Cases of RoPE: both styles; head sizes that divide by 8, by 4, by 2; tables per batch entry; storage formats. */
export const ROPE_SUITE: OpSuite = {
  variants: [""],
  cases: (["interleaved", "half"] as const).flatMap((style) => [
    ropeCase(style, [2, 5, 3, 16]),
    ropeCase(style, [1, 7, 2, 12]),
    ropeCase(style, [2, 3, 3, 6]),
    ropeCase(style, [1, 1, 1, 2]),
    ropeCase(style, [2, 5, 3, 16], true),
    ropeCase(style, [2, 5, 3, 10], true, "bf16"),
    ropeCase(style, [1, 9, 1, 128], false, "f16"),
  ]),
};
