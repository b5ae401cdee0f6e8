import type { OpCase, OpSuite } from "../../conformance.ts";
import type { DType } from "../../dtype.ts";
import { activationReference, ACTIVATIONS } from "../activations.ts";
import { randomNormal } from "../ndarray.ts";
import { elementwise } from "./mod.ts";
import { elementwiseReference } from "./reference.ts";

const modulate = (a: number, scale: number, shift: number) => a * (1 + scale) + shift;

function modulateCase(
  a: number[],
  scale: number[],
  shift: number[],
  dtype: DType = "f32",
): OpCase {
  return {
    name: `modulate a [${a}] scale [${scale}] shift [${shift}] ${dtype}`,
    inputs: {
      a: { values: randomNormal(a, 1), dtype },
      scale: { values: randomNormal(scale, 2), dtype: "f32" },
      shift: { values: randomNormal(shift, 3), dtype },
    },
    build: ({ a, scale, shift }) => [
      elementwise("a * (1.0 + scale) + shift", { a: a!, scale: scale!, shift: shift! }),
    ],
    reference: ({ a, scale, shift }) => [elementwiseReference(modulate, [a!, scale!, shift!])],
    tolerance: 1e-6,
  };
}

/** Broadcast patterns of diffusion models, odd sizes, storage formats, activations, scalars. */
export const ELEMENTWISE_SUITE: OpSuite = {
  variants: [""],
  cases: [
    modulateCase([2, 16, 32], [2, 1, 32], [2, 1, 32]),
    modulateCase([2, 16, 32], [32], [1]),
    modulateCase([3, 5, 7], [7], [3, 1, 1]),
    modulateCase([1, 1], [1], [1]),
    modulateCase([2, 3, 4, 5, 8], [3, 1, 5, 1], [2, 1, 4, 1, 8]),
    modulateCase([4, 6], [4, 1], [6]),
    modulateCase([16, 32], [32], [16, 1], "f16"),
    modulateCase([5, 7], [7], [1], "bf16"),
    {
      name: "stored as f16",
      inputs: { a: { values: randomNormal([3, 8], 1), dtype: "f32" } },
      build: ({ a }) => [elementwise("2.0 * a", { a: a! }, { dtype: "f16" })],
      reference: ({ a }) => [elementwiseReference((a) => 2 * a, [a!])],
      tolerance: 5e-4,
    },
    ...ACTIVATIONS.map((activation): OpCase => ({
      name: `act_${activation}, values from -120 to 120`,
      inputs: {
        a: {
          values: { shape: [241], data: Float64Array.from({ length: 241 }, (_, i) => i - 120) },
          dtype: "f32",
        },
      },
      build: ({ a }) => [
        elementwise(`act_${activation}(a * 0.1) * k`, { a: a! }, { scalars: { k: 0.5 } }),
      ],
      reference: ({ a }) => [
        elementwiseReference(
          (x) => 0.5 * activationReference(activation, Math.fround(x * Math.fround(0.1))),
          [a!],
        ),
      ],
      tolerance: 1e-6,
    })),
  ],
};
