import { elementCount } from "../../shape.ts";
import type { DType } from "../../dtype.ts";
import type { Activation } from "../activations.ts";
import type { CaseInput, OpCase, OpSuite } from "../../conformance.ts";
import { lazyArray, type NdArray, ndarray, randomNormal } from "../ndarray.ts";
import { type Check, matrixCheck } from "../op.ts";
import { groupNormReference } from "../norm/reference.ts";
import { causalConv3d } from "./causal_conv3d.ts";
import { conv2d } from "./conv2d.ts";
import { convReference } from "./reference.ts";
import { CONV_VARIANTS } from "./convolution.ts";

const TOLERANCE = 2e-5;

interface ConvCase {
  /** [B, H, W, Ci] or [B, T, H, W, Ci]. */
  x: number[];
  channels: number;
  /** [kh, kw] or [kt, kh, kw]. */
  kernel: number[];
  stride?: number[];
  padding?: [number, number, number, number];
  dtype?: DType;
  bias?: boolean;
  activation?: Activation;
  residual?: boolean;
  upsample?: 1 | 2;
  cacheFrames?: number;
  cacheDType?: DType;
  frontPadding?: number;
  /** Of the input. */
  norm?: { groups: number; activation: "none" | "silu" };
}

const NORM_EPS = 1e-6;

/** The same array with one frame. */
function asVideo({ shape, data }: NdArray): NdArray {
  return ndarray([shape[0]!, 1, ...shape.slice(1)], data);
}

function optionsOf(spec: ConvCase) {
  const { stride = spec.kernel.map(() => 1), padding, upsample = 1, activation } = spec;
  return {
    ...(padding && { padding }),
    ...(activation && { activation }),
    upsample,
    stride,
    frontPadding: spec.frontPadding,
  };
}

/** The reference's view of a case: videos, strides over frames too. */
function referenceOf(spec: ConvCase, arrays: Readonly<Record<string, NdArray>>): NdArray {
  const isImage = spec.kernel.length === 2;
  const { w, bias, cache, residual, gamma, beta } = arrays;
  const options = optionsOf(spec);
  const { norm } = spec;
  const x = norm
    ? groupNormReference(arrays["x"]!, norm.groups, NORM_EPS, {
      weight: gamma,
      bias: beta,
      activation: norm.activation,
    })
    : arrays["x"];
  const stride = (isImage ? [1, ...options.stride] : options.stride) as [number, number, number];
  const result = convReference(isImage ? asVideo(x!) : x!, isImage ? asVideo(w!) : w!, {
    ...options,
    stride,
    bias,
    cache,
    residual,
  });
  if (!isImage) return result;
  const [batch, , ...rest] = result.shape;
  return lazyArray([batch!, ...rest], () => result.data);
}

function convCase(spec: ConvCase): OpCase {
  const { x, channels, kernel, dtype = "f32" } = spec;
  const isImage = kernel.length === 2;
  const weight = [channels, ...kernel, x.at(-1)!];
  const terms = elementCount(weight.slice(1));
  const inputs: Record<string, CaseInput> = {
    x: { values: randomNormal(x, 1), dtype: "f32" },
    w: { values: randomNormal(weight, 2, 1 / Math.sqrt(terms)), dtype },
  };
  if (spec.bias) inputs["bias"] = { values: randomNormal([channels], 3), dtype };
  if (spec.norm) {
    inputs["gamma"] = { values: randomNormal([x.at(-1)!], 6), dtype };
    inputs["beta"] = { values: randomNormal([x.at(-1)!], 7), dtype };
  }
  if (spec.cacheFrames) {
    const values = randomNormal(x.with(1, spec.cacheFrames), 4);
    inputs["cache"] = { values, dtype: spec.cacheDType ?? "f32" };
  }
  if (spec.residual) {
    const arrays = {
      x: ndarray(x),
      w: ndarray(weight),
      ...(spec.cacheFrames && { cache: ndarray(x.with(1, spec.cacheFrames)) }),
    };
    inputs["residual"] = { values: randomNormal(referenceOf(spec, arrays).shape, 5), dtype: "f32" };
  }
  const options = optionsOf(spec);
  const name = [
    `x [${x}] w [${weight}]`,
    spec.stride && `stride [${spec.stride}]`,
    spec.padding && `padding [${spec.padding}]`,
    spec.norm && `norm of ${spec.norm.groups} groups`,
    spec.norm?.activation,
    spec.upsample === 2 && "upsampled",
    spec.cacheFrames && `cache of ${spec.cacheFrames}`,
    spec.cacheDType && `in ${spec.cacheDType}`,
    spec.frontPadding !== undefined && `front ${spec.frontPadding}`,
    spec.bias && "bias",
    spec.activation,
    spec.residual && "residual",
    dtype,
  ].filter((part) => part).join(" ");
  return {
    name,
    inputs,
    build: ({ x, w, bias, cache, residual, gamma, beta }) => {
      if (isImage) {
        const stride = options.stride as [number, number];
        const { upsample = 1 } = spec;
        const norm = spec.norm && { ...spec.norm, eps: NORM_EPS, weight: gamma, bias: beta };
        return [conv2d(x!, w!, { ...options, upsample, stride, bias, residual, norm })];
      }
      const { padding, activation, frontPadding } = spec;
      const stride = options.stride as [number, number, number];
      return [
        causalConv3d(x!, w!, {
          stride,
          bias,
          cache,
          residual,
          ...(padding && { padding }),
          ...(activation && { activation }),
          ...(frontPadding !== undefined && { frontPadding }),
        }),
      ];
    },
    reference: (arrays) => [referenceOf(spec, arrays)],
    tolerance: TOLERANCE,
    // What is normalised is rounded after it, not before.
    half: spec.norm
      ? { inputs: ["w"], tolerance: 1e-3 }
      : { inputs: ["x", "w", "cache"], tolerance: 1e-4 },
  };
}

const SAME: [number, number, number, number] = [1, 1, 1, 1];

const NORMED = convCase({
  x: [2, 6, 5, 16],
  channels: 20,
  kernel: [3, 3],
  padding: SAME,
  bias: true,
  norm: { groups: 4, activation: "silu" },
});

/** Odd sizes and channels, strides, one-sided padding, 1 x 1, epilogues, upsampling, inputs to normalise, storage formats. */
export const CONV2D_SUITE: OpSuite = {
  variants: CONV_VARIANTS.filter(({ isSpare }) => !isSpare).map(({ name }) => name),
  cases: [
    convCase({ x: [1, 8, 8, 16], channels: 16, kernel: [3, 3], padding: SAME, bias: true }),
    convCase({ x: [2, 7, 5, 3], channels: 20, kernel: [3, 3], padding: SAME, bias: true }),
    convCase({ x: [1, 9, 11, 12], channels: 3, kernel: [3, 3], padding: SAME, bias: true }),
    convCase({
      x: [1, 17, 13, 8],
      channels: 12,
      kernel: [3, 3],
      stride: [2, 2],
      padding: [0, 1, 0, 1],
      bias: true,
    }),
    convCase({ x: [1, 8, 8, 8], channels: 70, kernel: [3, 3], stride: [2, 1], padding: SAME }),
    convCase({ x: [1, 9, 9, 8], channels: 72, kernel: [3, 3], padding: SAME, bias: true }),
    NORMED,
    convCase({
      x: [2, 5, 7, 6],
      channels: 5,
      kernel: [3, 3],
      padding: SAME,
      upsample: 2,
      norm: { groups: 2, activation: "none" },
    }),
    convCase({
      x: [1, 9, 8, 12],
      channels: 68,
      kernel: [3, 3],
      padding: SAME,
      bias: true,
      residual: true,
      dtype: "f16",
      norm: { groups: 4, activation: "silu" },
    }),
    convCase({
      x: [1, 3, 4, 8],
      channels: 12,
      kernel: [1, 1],
      norm: { groups: 2, activation: "silu" },
    }),
    convCase({ x: [2, 5, 7, 40], channels: 24, kernel: [1, 1], bias: true }),
    convCase({ x: [1, 1, 1, 1], channels: 1, kernel: [1, 1] }),
    convCase({
      x: [1, 3, 3, 4],
      channels: 8,
      kernel: [3, 3],
      padding: SAME,
      activation: "silu",
      bias: true,
    }),
    convCase({
      x: [1, 6, 5, 8],
      channels: 8,
      kernel: [3, 3],
      padding: SAME,
      residual: true,
      bias: true,
    }),
    convCase({
      x: [2, 6, 5, 6],
      channels: 5,
      kernel: [3, 3],
      padding: SAME,
      residual: true,
      activation: "gelu_tanh",
    }),
    convCase({
      x: [2, 5, 7, 8],
      channels: 16,
      kernel: [3, 3],
      padding: SAME,
      upsample: 2,
      bias: true,
    }),
    convCase({ x: [1, 5, 3, 3], channels: 6, kernel: [3, 3], padding: SAME, upsample: 2 }),
    convCase({ x: [1, 3, 4, 256], channels: 20, kernel: [3, 3], padding: SAME, bias: true }),
    convCase({ x: [1, 5, 17, 8], channels: 36, kernel: [1, 3], padding: [0, 0, 2, 1], bias: true }),
    convCase({ x: [1, 8, 8, 3], channels: 32, kernel: [4, 4], stride: [4, 4], bias: true }),
    convCase({ x: [1, 6, 9, 5], channels: 9, kernel: [2, 5], padding: [3, 0, 1, 4], bias: true }),
    convCase({
      x: [1, 12, 11, 20],
      channels: 40,
      kernel: [3, 3],
      padding: SAME,
      bias: true,
      dtype: "f16",
    }),
    convCase({
      x: [1, 12, 11, 20],
      channels: 40,
      kernel: [3, 3],
      padding: SAME,
      bias: true,
      dtype: "bf16",
    }),
    convCase({
      x: [1, 7, 7, 3],
      channels: 7,
      kernel: [3, 3],
      padding: SAME,
      bias: true,
      dtype: "f16",
    }),
    convCase({
      x: [1, 7, 7, 5],
      channels: 7,
      kernel: [3, 3],
      padding: SAME,
      bias: true,
      dtype: "bf16",
    }),
  ],
  heavy: [
    convCase({ x: [1, 63, 69, 64], channels: 64, kernel: [3, 3], padding: SAME, bias: true }),
    convCase({
      x: [1, 1100, 4, 64],
      channels: 64,
      kernel: [3, 3] as const,
      padding: SAME,
      residual: true,
    }),
  ],
};

const WITH_HISTORY = convCase({
  x: [2, 2, 5, 4, 8],
  channels: 8,
  kernel: [3, 3, 3],
  padding: SAME,
  cacheFrames: 2,
  bias: true,
});

/** Zero frames, caches of one and two frames, strides over time, kernels of one frame, front padding, batches. */
export const CAUSAL_CONV3D_SUITE: OpSuite = {
  variants: CONV_VARIANTS.filter(({ isSpare, normalizes }) => !isSpare && !normalizes).map((
    { name },
  ) => name),
  cases: [
    convCase({ x: [1, 1, 8, 8, 8], channels: 16, kernel: [3, 3, 3], padding: SAME, bias: true }),
    convCase({ x: [2, 3, 5, 7, 12], channels: 20, kernel: [3, 3, 3], padding: SAME, bias: true }),
    WITH_HISTORY,
    convCase({
      x: [2, 2, 5, 4, 8],
      channels: 12,
      kernel: [3, 3, 3],
      padding: SAME,
      cacheFrames: 1,
      bias: true,
    }),
    convCase({ x: [1, 1, 4, 4, 3], channels: 6, kernel: [3, 3, 3], padding: SAME, cacheFrames: 2 }),
    convCase({
      x: [1, 4, 5, 3, 8],
      channels: 8,
      kernel: [3, 1, 1],
      stride: [2, 1, 1],
      cacheFrames: 1,
      frontPadding: 0,
      bias: true,
    }),
    convCase({ x: [2, 5, 3, 3, 5], channels: 7, kernel: [3, 1, 1], stride: [2, 1, 1], bias: true }),
    convCase({ x: [1, 3, 5, 5, 16], channels: 24, kernel: [1, 1, 1], bias: true }),
    convCase({
      x: [1, 4, 5, 5, 3],
      channels: 8,
      kernel: [2, 3, 3],
      stride: [1, 2, 2],
      padding: [0, 1, 0, 1],
      bias: true,
    }),
    convCase({
      x: [2, 2, 5, 6, 16],
      channels: 16,
      kernel: [3, 3, 3],
      padding: SAME,
      cacheFrames: 2,
      residual: true,
      activation: "silu",
      bias: true,
    }),
    convCase({ x: [1, 2, 3, 3, 4], channels: 4, kernel: [3, 1, 1], frontPadding: 5, bias: true }),
    convCase({
      x: [1, 2, 9, 8, 4],
      channels: 68,
      kernel: [3, 3, 3],
      padding: SAME,
      cacheFrames: 1,
    }),
    convCase({
      x: [1, 2, 9, 8, 8],
      channels: 40,
      kernel: [3, 3, 3],
      padding: SAME,
      cacheFrames: 2,
      cacheDType: "f16",
      bias: true,
      dtype: "bf16",
    }),
    convCase({
      x: [1, 2, 6, 6, 6],
      channels: 10,
      kernel: [3, 3, 3],
      padding: SAME,
      cacheFrames: 1,
      dtype: "f16",
    }),
  ],
};

/** Images. */
export const CONV2D_CHECKS: readonly Check[] = [
  { name: "conv2d", cases: [...CONV2D_SUITE.cases.slice(0, 2), NORMED] },
  matrixCheck("conv2d", "matrix32", CONV2D_SUITE.cases.slice(0, 1)),
];

/** Videos: the first frames, and those that see frames of the part before. */
export const CAUSAL_CONV3D_CHECKS: readonly Check[] = [
  { name: "causalConv3d", cases: CAUSAL_CONV3D_SUITE.cases.slice(0, 2) },
  { name: "causalConv3d: with history", cases: [WITH_HISTORY] },
  matrixCheck("causalConv3d", "matrix32", [WITH_HISTORY]),
];
