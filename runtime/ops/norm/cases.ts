import type { DType } from "../../dtype.ts";
import type { Activation } from "../activations.ts";
import type { CaseInput, OpCase, OpSuite } from "../../conformance.ts";
import { lazyArray, type NdArray, randomNormal } from "../ndarray.ts";
import { ropeReference } from "../rope/reference.ts";
import { groupNorm } from "./group_norm.ts";
import { layerNorm } from "./layer_norm.ts";
import { groupNormReference, layerNormReference, rmsNormReference } from "./reference.ts";
import { rmsNorm } from "./rms_norm.ts";

const TOLERANCE = 1e-5;

/** Which operands a case has; shapes for the modulation, storage formats for all but `x`. */
interface NormCase {
  x: number[];
  /** Mean of the values of `x`. */
  mean?: number;
  eps?: number;
  dtype?: DType;
  weight?: boolean;
  bias?: boolean;
  scale?: number[];
  shift?: number[];
  gate?: number[];
  residual?: boolean;
  activation?: Activation;
  /** A weight for each `x[p]`. */
  parts?: boolean;
  headDim?: number;
  headAxis?: boolean;
}

function inputsOf(spec: NormCase) {
  const { x, mean = 0, dtype = "f32", weight, bias, scale, shift, parts, headDim } = spec;
  const channels = x.at(-1)!;
  const values = lazyArray(x, () => randomNormal(x, 1).data.map((value) => value + mean));
  const inputs: Record<string, CaseInput> = { x: { values, dtype: "f32" } };
  if (weight) {
    inputs["weight"] = { values: randomNormal([...(parts ? [x[0]!] : []), channels], 2), dtype };
  }
  if (headDim) {
    const table = [x.at(spec.headAxis ? -3 : -2)!, headDim / 2];
    inputs["cos"] = { values: randomNormal(table, 6), dtype };
    inputs["sin"] = { values: randomNormal(table, 7), dtype };
  }
  if (bias) inputs["bias"] = { values: randomNormal([channels], 3), dtype };
  if (scale) inputs["scale"] = { values: randomNormal(scale, 4, 0.5), dtype: "f32" };
  if (shift) inputs["shift"] = { values: randomNormal(shift, 5), dtype };
  if (spec.gate) inputs["gate"] = { values: randomNormal(spec.gate, 8), dtype };
  if (spec.residual) inputs["residual"] = { values: randomNormal(x, 9), dtype: "f32" };
  return inputs;
}

/** Operands of a case out of tensors or arrays, for the op and for its reference alike. */
function operandsOf<T>(values: Readonly<Record<string, T>>) {
  const { weight, bias, scale, shift, gate, residual } = values;
  return { weight, bias, scale, shift, gate, residual };
}

function title(spec: NormCase & { groups?: number }, kind: string): string {
  const parts = [`${kind} x [${spec.x}]`];
  if (spec.groups !== undefined) parts.push(`groups ${spec.groups}`);
  if (spec.mean) parts.push(`mean ${spec.mean}`);
  if (spec.eps !== undefined) parts.push(`eps ${spec.eps}`);
  if (spec.weight) parts.push(spec.parts ? "weight by parts" : "weight");
  if (spec.headDim) parts.push(`rotary ${spec.headDim}${spec.headAxis ? " by heads" : ""}`);
  if (spec.bias) parts.push("bias");
  if (spec.scale) parts.push(`scale [${spec.scale}]`);
  if (spec.shift) parts.push(`shift [${spec.shift}]`);
  if (spec.gate) parts.push(`gate [${spec.gate}]`);
  if (spec.residual) parts.push("residual");
  return [...parts, spec.activation ?? "", spec.dtype ?? ""].join(" ").trim();
}

function layerCase(spec: NormCase): OpCase {
  const { eps = 1e-6 } = spec;
  return {
    name: title(spec, "layer"),
    inputs: inputsOf(spec),
    build: (tensors) => [layerNorm(tensors["x"]!, { eps, ...operandsOf(tensors) })],
    reference: (arrays) => [layerNormReference(arrays["x"]!, eps, operandsOf<NdArray>(arrays))],
    tolerance: TOLERANCE,
  };
}

function rmsCase(spec: NormCase, kind: "rms" | "l2" = "rms"): OpCase {
  const { eps = 1e-6, activation = "none" } = spec;
  return {
    name: title(spec, kind),
    inputs: inputsOf(spec),
    build: (tensors) => [
      rmsNorm(tensors["x"]!, {
        eps,
        kind,
        activation,
        ...operandsOf(tensors),
        ...(spec.headDim && {
          rotary: {
            cos: tensors["cos"]!,
            sin: tensors["sin"]!,
            hasHeadAxis: spec.headAxis ?? false,
          },
        }),
      }),
    ],
    reference: (arrays) => {
      const operands = { ...operandsOf<NdArray>(arrays), activation };
      if (spec.parts) operands.weight = rowByRow(arrays["weight"]!, spec.x);
      const normal = rmsNormReference(arrays["x"]!, eps, kind, operands);
      return [spec.headDim ? rotate(normal, spec, arrays) : normal];
    },
    tolerance: TOLERANCE,
  };
}

/** Weights by parts as an array that broadcasts. */
function rowByRow({ shape, data }: NdArray, x: readonly number[]): NdArray {
  return { shape: [shape[0]!, ...x.slice(1, -1).fill(1), shape[1]!], data };
}

function rotate(
  { shape, data }: NdArray,
  { headDim, headAxis }: NormCase,
  tables: Record<string, NdArray>,
): NdArray {
  const length = shape.at(headAxis ? -3 : -2)!;
  const count = headAxis ? shape.at(-2)! : shape.at(-1)! / headDim!;
  const heads = [data.length / length / count / headDim!, length, count, headDim!];
  const { cos, sin } = tables;
  return { shape, data: ropeReference({ shape: heads, data }, cos!, sin!, "interleaved").data };
}

function groupCase(spec: NormCase & { groups: number }): OpCase {
  const { eps = 1e-6, groups, activation = "none" } = spec;
  return {
    name: title(spec, "group"),
    inputs: inputsOf(spec),
    build: (tensors) => [
      groupNorm(tensors["x"]!, { groups, eps, activation, ...operandsOf(tensors) }),
    ],
    reference: (arrays) => [
      groupNormReference(arrays["x"]!, groups, eps, {
        ...operandsOf<NdArray>(arrays),
        activation,
      }),
    ],
    tolerance: TOLERANCE,
  };
}

/** Row lengths around the vector width and the workgroup, modulation shapes, offsets, storage formats. */
export const LAYER_NORM_SUITE: OpSuite = {
  variants: ["cpu", "gpu"],
  cases: [
    layerCase({ x: [5, 3] }),
    layerCase({ x: [1, 1] }),
    layerCase({ x: [2, 33, 16], weight: true, bias: true }),
    layerCase({ x: [2, 7, 96], weight: true, dtype: "bf16" }),
    layerCase({ x: [2, 7, 160], scale: [2, 1, 160], shift: [2, 1, 160] }),
    layerCase({ x: [2, 7, 160], scale: [160], shift: [2, 7, 160], bias: true, dtype: "f16" }),
    layerCase({ x: [2, 3, 5, 12], scale: [2, 3, 1, 12], shift: [1, 3, 5, 12] }),
    layerCase({ x: [2, 3, 5, 12], scale: [3, 5, 12], shift: [2, 1, 1, 12] }),
    layerCase({ x: [3, 1023], weight: true, bias: true, dtype: "f16" }),
    layerCase({ x: [3, 1023], mean: 1000 }),
    layerCase({ x: [9, 160], mean: 1000, weight: true }),
    layerCase({ x: [2, 2048], mean: -1000, scale: [2048] }),
    layerCase({ x: [4, 16], eps: 0.5 }),
  ],
};

/** Cases of RMS norms: both kinds, activations, modulation, rows that are all zero. */
export const RMS_NORM_SUITE: OpSuite = {
  variants: ["cpu", "gpu"],
  cases: [
    rmsCase({ x: [5, 3], weight: true }),
    rmsCase({ x: [2, 33, 16], weight: true }),
    rmsCase({ x: [1, 2, 3, 4, 96], weight: true, activation: "silu" }, "l2"),
    rmsCase({ x: [17, 40], weight: true, activation: "silu", eps: 1e-12 }, "l2"),
    rmsCase({ x: [3, 7], eps: 100 }, "l2"),
    rmsCase({ x: [2, 7, 160], weight: true, scale: [2, 1, 160], dtype: "bf16" }),
    rmsCase({ x: [2, 7, 160], scale: [160], shift: [2, 7, 160], dtype: "f16" }),
    rmsCase({ x: [3, 1023], weight: true, eps: 0.1 }),
    rmsCase({ x: [2, 5, 160], weight: true, gate: [2, 1, 160], residual: true }),
    rmsCase({ x: [3, 37], gate: [37], dtype: "bf16" }),
    rmsCase({ x: [3, 1024], weight: true, residual: true, activation: "silu" }),
    rmsCase({ x: [2, 3, 7, 24], weight: true, parts: true }),
    rmsCase({ x: [2, 2, 9, 160], weight: true, parts: true, headDim: 32 }),
    rmsCase({ x: [3, 5, 12], weight: true, headDim: 4, dtype: "bf16" }),
    rmsCase({ x: [1, 3, 1024], weight: true, headDim: 128 }),
    rmsCase({ x: [2, 3, 5, 8], weight: true, parts: true, headDim: 8, headAxis: true }),
    rmsCase({ x: [3, 1024], mean: 1000, weight: true, activation: "gelu_tanh" }),
    {
      name: "rows of zeros",
      inputs: { x: { values: randomNormal([3, 12], 1, 0), dtype: "f32" } },
      build: ({ x }) => [rmsNorm(x!, { eps: 1e-6 }), rmsNorm(x!, { eps: 1e-12, kind: "l2" })],
      reference: ({ x }) => [x!, x!],
      tolerance: TOLERANCE,
    },
  ],
};

/** Groups of one, of odd and of all channels, odd numbers of positions, more positions than one chunk. */
export const GROUP_NORM_SUITE: OpSuite = {
  variants: ["cpu", "gpu"],
  cases: [
    groupCase({ x: [2, 5, 7, 16], groups: 1, weight: true, bias: true }),
    groupCase({ x: [1, 3, 3, 96], groups: 32, weight: true, bias: true, activation: "silu" }),
    groupCase({ x: [2, 3, 5, 7, 6], groups: 2, weight: true, bias: true, dtype: "f16" }),
    groupCase({ x: [1, 9, 9, 3], groups: 3 }),
    groupCase({ x: [2, 1, 12], groups: 4, bias: true, dtype: "bf16" }),
    groupCase({ x: [3, 8], groups: 2, weight: true }),
    groupCase({ x: [1, 67, 71, 8], groups: 2, weight: true, bias: true, eps: 0.1 }),
    groupCase({ x: [1, 31, 33, 40], groups: 8, mean: 1000, weight: true, activation: "silu" }),
  ],
};
