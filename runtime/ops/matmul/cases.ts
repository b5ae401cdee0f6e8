import type { DType } from "../../dtype.ts";
import type { OpCase, OpSuite } from "../../conformance.ts";
import { GEMM_VARIANTS } from "../gemm/mod.ts";
import { type NdArray, ndarray, randomNormal } from "../ndarray.ts";
import { type Check, matrixCheck } from "../op.ts";
import { matmul, type MatmulOptions } from "./mod.ts";
import { broadcastShapes, elementCount, stridesOf } from "../../shape.ts";

function matmulCase(
  a: readonly number[],
  b: readonly number[],
  options: MatmulOptions = {},
  dtype: DType = "f32",
): OpCase {
  const { transposeB = false, scale } = options;
  const parts = [transposeB && "transposed", scale !== undefined && `scale ${scale}`, dtype];
  return {
    name: [`a [${a}] b [${b}]`, ...parts.filter((part) => part)].join(" "),
    inputs: {
      a: { values: randomNormal(a, 1), dtype: "f32" },
      b: { values: randomNormal(b, 2), dtype },
    },
    build: ({ a, b }) => [matmul(a!, b!, options)],
    reference: ({ a, b }) => [matmulReference(a!, b!, transposeB, scale)],
    tolerance: 2e-5,
    half: { inputs: ["a", "b"], tolerance: 1e-4 },
  };
}

/** Cases of matmul: both layouts of b, sizes around every tile, batches with every kind of broadcasting. */
export const MATMUL_SUITE: OpSuite = {
  variants: GEMM_VARIANTS,
  cases: [
    matmulCase([1, 1], [1, 1]),
    matmulCase([1, 64], [64, 1]),
    matmulCase([64, 1], [1, 64]),
    matmulCase([16, 64], [64, 48]),
    matmulCase([17, 30], [30, 33]),
    matmulCase([17, 32], [32, 33]),
    matmulCase([17, 30], [30, 36]),
    matmulCase([70, 64], [64, 132]),
    matmulCase([4, 36], [20, 36], { transposeB: true }),
    matmulCase([19, 37], [41, 37], { transposeB: true, scale: 0.25 }),
    matmulCase([3, 9, 20], [20, 24]),
    matmulCase([3, 9, 20], [3, 20, 24], { scale: 2 }),
    matmulCase([3, 9, 21], [3, 21, 10]),
    matmulCase([9, 20], [3, 20, 24]),
    matmulCase([2, 3, 9, 20], [2, 3, 12, 20], { transposeB: true }),
    matmulCase([2, 1, 9, 20], [3, 20, 24]),
    matmulCase([2, 3, 9, 20], [2, 1, 24, 20], { transposeB: true }),
    matmulCase([300, 130], [130, 257]),
    matmulCase([130, 32], [32, 68]),
    // Several bands of columns, of which the last one is not full.
    matmulCase([40, 2052], [2052, 332]),
    matmulCase([64, 128], [128, 64], {}, "f16"),
    matmulCase([64, 127], [63, 127], { transposeB: true }, "bf16"),
  ],
  heavy: [matmulCase([3, 130, 512], [3, 512, 340], { scale: 0.5 })],
};

/** Products of activations. */
export const MATMUL_CHECKS: readonly Check[] = [
  { name: "matmul", cases: MATMUL_SUITE.cases.slice(0, 2) },
  matrixCheck("matmul", "matrix32", [
    matmulCase([16, 64], [64, 48]),
    matmulCase([19, 37], [41, 37], { transposeB: true, scale: 0.25 }),
  ]),
];

/** y = scale * a · b (b transposed on demand) in double precision; leading dimensions broadcast. */
export function matmulReference(a: NdArray, b: NdArray, transposeB = false, scale = 1): NdArray {
  const [m, k] = a.shape.slice(-2) as [number, number];
  const n = b.shape.at(transposeB ? -2 : -1)!;
  const lead = broadcastShapes([a.shape.slice(0, -2), b.shape.slice(0, -2)]);
  const y = ndarray([...lead, m, n]);
  for (let z = 0; z < elementCount(lead); z++) {
    const aStart = matrixIndex(a.shape, lead, z) * m * k;
    const bStart = matrixIndex(b.shape, lead, z) * n * k;
    for (let row = 0; row < m; row++) {
      for (let column = 0; column < n; column++) {
        let sum = 0;
        for (let i = 0; i < k; i++) {
          sum += a.data[aStart + row * k + i]! *
            b.data[bStart + (transposeB ? column * k + i : i * n + column)]!;
        }
        y.data[(z * m + row) * n + column] = scale * sum;
      }
    }
  }
  return y;
}

/** Which matrix of an array with broadcast leading dimensions belongs to matrix `z` of the result. */
function matrixIndex(shape: readonly number[], lead: readonly number[], z: number): number {
  const own = shape.slice(0, -2);
  const strides = stridesOf(lead);
  return own.reduce((index, size, axis) => {
    const at = lead.length - own.length + axis;
    const coordinate = Math.floor(z / strides[at]!) % lead[at]!;
    return index * size + (size === 1 ? 0 : coordinate);
  }, 0);
}
