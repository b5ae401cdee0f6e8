import type { DType } from "../../dtype.ts";
import type { WeightFormat } from "../../quantization/block_format.ts";
import { BLOCK_FORMATS } from "../../quantization/formats.ts";
import type { Activation } from "../activations.ts";
import type { CaseInput, OpCase, OpSuite } from "../../conformance.ts";
import { GEMM_VARIANTS } from "../gemm/mod.ts";
import { type NdArray, ndarray, randomNormal } from "../ndarray.ts";
import { type Check, matrixCheck } from "../op.ts";
import { sampleWeight } from "../sample_blocks.ts";
import { layerNormReference } from "../norm/reference.ts";
import { linear } from "./mod.ts";
import { gluReference, linearReference } from "./reference.ts";

interface LinearCase {
  readonly x: readonly number[];
  readonly n: number;
  readonly dtype?: DType;
  readonly xDtype?: DType;
  /** Standard deviation of x. */
  readonly xMagnitude?: number;
  /** The weight is quantised. */
  readonly format?: WeightFormat;
  /** Magnitude of the weight's elements, and the scale of the tensor. */
  readonly magnitude?: number;
  readonly scale?: number;
  readonly bias?: boolean;
  readonly activation?: Activation;
  readonly gate?: readonly number[];
  readonly residual?: boolean;
  readonly parts?: number;
  readonly glu?: "first" | "second";
  /** Rank of the low-rank branch; its tensors are stored as `lowRankDtype`. */
  readonly rank?: number;
  readonly lowRankDtype?: DType;
  /** The branch's own weight is quantised. */
  readonly downFormat?: WeightFormat;
  /** Shapes of the parts of a normalisation, and how far the rows are from zero. */
  readonly norm?: Readonly<Partial<Record<NormPart, readonly number[]>>>;
  readonly mean?: number;
}

const NORM_PARTS = ["weight", "bias", "scale", "shift"] as const;
type NormPart = typeof NORM_PARTS[number];

function linearCase(spec: LinearCase): OpCase {
  const { x, n, dtype = "f32", xDtype = "f32", bias, activation = "none", gate, residual } = spec;
  const k = x.at(-1)!;
  const {
    xMagnitude = 1,
    format,
    magnitude = 1 / Math.sqrt(k),
    scale,
    rank,
    lowRankDtype = "f32",
    downFormat,
    parts: count,
    glu,
  } = spec;
  const inputs: Record<string, CaseInput> = {
    x: { values: randomNormal(x, 1, xMagnitude), dtype: xDtype },
    w: format
      ? sampleWeight([n, k], format, 2, magnitude, scale)
      : { values: randomNormal([n, k], 2, magnitude), dtype },
  };
  if (bias) inputs["bias"] = { values: randomNormal([n], 3), dtype };
  if (gate) inputs["gate"] = { values: randomNormal(gate, 4), dtype: "f32" };
  if (residual) {
    inputs["residual"] = { values: randomNormal([...x.slice(0, -1), n], 5), dtype: "f32" };
  }
  if (rank) {
    inputs["down"] = downFormat
      ? sampleWeight([rank, k], downFormat, 6, 1 / Math.sqrt(k))
      : { values: randomNormal([rank, k], 6, 1 / Math.sqrt(k)), dtype: lowRankDtype };
    inputs["up"] = { values: randomNormal([n, rank], 7, 1 / Math.sqrt(rank)), dtype: lowRankDtype };
    inputs["scales"] = { values: randomNormal([rank], 8), dtype: "f32" };
  }
  const { norm, mean = 0 } = spec;
  if (mean !== 0) inputs["x"]!.values.data.forEach((value, i, data) => data[i] = value + mean);
  NORM_PARTS.forEach((name, i) => {
    const shape = norm?.[name];
    if (shape) {
      inputs[`norm_${name}`] = { values: randomNormal(shape, 9 + i, 0.5), dtype: "f32" };
    }
  });
  const normOf = <T>(arrays: Readonly<Record<string, T>>) =>
    Object.fromEntries(
      NORM_PARTS.filter((name) => norm?.[name]).map((name) => [name, arrays[`norm_${name}`]!]),
    ) as Partial<Record<NormPart, T>>;
  const parts = [
    norm &&
    ["norm", ...Object.entries(norm).map(([name, shape]) => `${name} [${shape}]`)].join(" "),
    mean !== 0 && `of mean ${mean}`,
    rank && `rank ${rank} ${downFormat ?? lowRankDtype}`,
    bias && "bias",
    activation !== "none" && activation,
    gate && `gate [${gate}]`,
    residual && "residual",
    count && `${count} parts`,
    glu && `glu of the ${glu} half`,
  ];
  const weights = format ? `${format} of ${magnitude.toPrecision(1)}` : dtype;
  const xType = xMagnitude === 1 ? xDtype : `${xDtype} of ${xMagnitude.toPrecision(1)}`;
  const types = xType === "f32" ? weights : `${xType} by ${weights}`;
  return {
    name: [`x [${x}] n ${n} ${types}`, ...parts.filter((part) => part)].join(" "),
    inputs,
    build: ({ x, w, bias, gate, residual, down, up, scales, ...others }) => [
      linear(x!, w!, {
        activation,
        ...(bias && { bias }),
        ...(gate && { gate }),
        ...(residual && { residual }),
        ...(count !== undefined && { parts: count }),
        ...(glu && { glu }),
        ...(down && up && scales && { lowRank: { down, up, scales } }),
        ...(norm && { norm: { eps: 1e-6, ...normOf(others) } }),
      }),
    ],
    reference: (arrays) => {
      const x = norm ? layerNormReference(arrays["x"]!, 1e-6, normOf(arrays)) : arrays["x"]!;
      if (glu) return [gluReference(linearReference({ ...arrays, x }), activation, glu)];
      return [inParts(linearReference({ ...arrays, x }, activation), count)];
    },
    tolerance: 2e-5,
    // The branch's inner factor is no input, so that the reference does not round it.
    // Of rows that are normalised first, it is the result of that which kernels round.
    half: {
      inputs: [...(norm ? [] : ["x"]), "w", "down", "up"],
      tolerance: norm || rank ? 1e-3 : 1e-4,
    },
  };
}

/** [..., n] as [parts, ..., n / parts]. */
function inParts({ shape, data }: NdArray, parts: number | undefined): NdArray {
  if (parts === undefined) return { shape, data };
  const result = ndarray([parts, ...shape.slice(0, -1), shape.at(-1)! / parts]);
  const columns = shape.at(-1)! / parts;
  const rows = data.length / columns / parts;
  result.data.forEach((_, i) => {
    const [part, row] = [Math.floor(i / columns / rows), Math.floor(i / columns) % rows];
    result.data[i] = data[(row * parts + part) * columns + i % columns]!;
  });
  return result;
}

/** Gated linear units: halves around the tiles, every kind of weight, a low-rank branch, rows that are normalised. */
function gluCases(): OpCase[] {
  return [
    linearCase({ x: [5, 260], n: 40, dtype: "bf16", bias: true, activation: "silu", glu: "first" }),
    linearCase({ x: [2, 35, 37], n: 152, activation: "gelu_tanh", glu: "first" }),
    linearCase({ x: [67, 260], n: 136, rank: 20, dtype: "f16", activation: "silu", glu: "first" }),
    linearCase({ x: [70, 256], n: 136, format: "q4_k", activation: "silu", glu: "first" }),
    linearCase({ x: [9, 64], n: 72, format: "q8_0", rank: 4, activation: "silu", glu: "first" }),
    linearCase({ x: [130, 64], n: 264, norm: { weight: [64] }, glu: "first" }),
    linearCase({ x: [67, 260], n: 136, bias: true, activation: "gelu", glu: "second" }),
    linearCase({
      x: [70, 256],
      n: 152,
      format: "q8_0",
      rank: 4,
      bias: true,
      activation: "gelu",
      glu: "second",
      norm: { weight: [256], bias: [256] },
    }),
  ];
}

/** Formats of quantised weights, with the elements of a block. */
const QUANTIZED = Object.values(BLOCK_FORMATS).map(({ name, blockElements }) =>
  [name, blockElements] as const
);

/** Formats that show all ways through the kernels; the others show their decoding. */
const LEADING: ReadonlySet<WeightFormat> = new Set([
  "q8_0",
  "q5_0",
  "q4_0",
  "q6_k",
  "q5_k",
  "q4_k",
  "f8_e4m3",
]);

/** Formats whose {@linkcode smallScales} are below the normal f16 numbers. */
const SUBNORMAL: ReadonlySet<WeightFormat> = new Set(["q8_0", "q4_k", "q5_k", "q6_k"]);

/** A format around every tile, without and with an epilogue (few pipelines: each takes long to compile); `step` is its block. */
function quantizedCases(format: WeightFormat, step: number): OpCase[] {
  if (!LEADING.has(format)) {
    return [smallScales(format, step), linearCase({ x: [67, 2 * step], n: 130, format })];
  }
  const epilogue = { format, bias: true, activation: "silu", residual: true } as const;
  return [
    linearCase({ x: [1, 2 * step], n: 65, ...epilogue, gate: [65] }),
    smallScales(format, step),
    linearCase({ x: [2, 9, step], n: 36, ...epilogue, gate: [2, 1, 36] }),
    linearCase({ x: [67, 2 * step], n: 130, format }),
    linearCase({ x: [200, 5 * step], n: 68, format }),
  ];
}

/** Scales of this size are no normal f16 numbers in most formats. */
function smallScales(format: WeightFormat, step: number): OpCase {
  return linearCase({ x: [3, 3 * step], n: 12, format, magnitude: 2e-3 });
}

/** Ranks around the vectors and tiles, with all epilogue parts, on plain and on quantised weights. */
function lowRankCases(): OpCase[] {
  const epilogue = { bias: true, activation: "silu", residual: true } as const;
  return [
    linearCase({ x: [1, 160], n: 65, rank: 1 }),
    linearCase({ x: [3, 64], n: 36, rank: 4, ...epilogue, gate: [36] }),
    linearCase({ x: [9, 37], n: 50, rank: 3, lowRankDtype: "bf16" }),
    linearCase({ x: [19, 260], n: 34, rank: 4, bias: true }),
    linearCase({ x: [2, 18, 60], n: 33, rank: 33, ...epilogue, gate: [2, 1, 33] }),
    linearCase({ x: [67, 128], n: 130, rank: 32, dtype: "bf16", lowRankDtype: "f16" }),
    linearCase({ x: [200, 132], n: 260, rank: 20, ...epilogue, gate: [260] }),
    linearCase({ x: [1, 64], n: 34, rank: 8, downFormat: "q8_0", format: "q8_0" }),
    linearCase({ x: [67, 64], n: 132, rank: 32, format: "q8_0", bias: true, residual: true }),
    linearCase({ x: [200, 256], n: 68, rank: 4, format: "q4_k" }),
    linearCase({ x: [5, 36], n: 20, rank: 3, format: "f8_e4m3", scale: 0.37 }),
  ];
}

/** Rows that are normalised before the product: sizes around the tiles, every part of both, rows far from zero. */
function normCases(): OpCase[] {
  const modulation = (k: number) => ({ scale: [1, 1, k], shift: [1, 1, k] });
  const affine = (k: number) => ({ weight: [k], bias: [k] });
  const epilogue = { bias: true, residual: true } as const;
  return [
    linearCase({ x: [1, 4], n: 5, norm: {} }),
    linearCase({ x: [2, 160], n: 36, norm: { weight: [160] }, bias: true }),
    linearCase({ x: [2, 3, 64], n: 33, norm: modulation(64), ...epilogue, gate: [2, 1, 33] }),
    linearCase({ x: [15, 37], n: 40, norm: affine(37), bias: true }),
    linearCase({ x: [2, 16, 160], n: 96, norm: modulation(160), bias: true, parts: 3 }),
    linearCase({ x: [2, 36, 160], n: 160, norm: affine(160), bias: true }),
    linearCase({ x: [3, 17, 64], n: 70, norm: modulation(64), activation: "gelu_tanh" }),
    linearCase({ x: [2, 9, 32], n: 36, norm: { scale: [2, 1, 32], shift: [2, 9, 32] } }),
    linearCase({ x: [1, 25, 60], n: 34, norm: { ...affine(60), ...modulation(60) }, bias: true }),
    linearCase({ x: [1, 25, 60], n: 34, norm: { ...affine(60), scale: [60] }, ...epilogue }),
    linearCase({ x: [130, 64], n: 130, norm: { shift: [64] }, bias: true }),
    linearCase({ x: [24, 64], n: 40, xDtype: "bf16", dtype: "bf16", norm: affine(64), mean: 3 }),
    linearCase({ x: [32, 160], n: 40, norm: affine(160), mean: 1000, bias: true }),
    linearCase({ x: [33, 64], n: 36, format: "q8_0", norm: affine(64), bias: true }),
    linearCase({ x: [3, 256], n: 36, format: "q4_k", norm: affine(256), bias: true }),
    linearCase({ x: [1, 18, 64], n: 36, norm: modulation(64), rank: 4, bias: true }),
  ];
}

/** Sizes around every tile, all storage formats, all epilogue parts. */
export const LINEAR_SUITE: OpSuite = {
  variants: GEMM_VARIANTS,
  cases: [
    linearCase({ x: [1, 1], n: 1 }),
    linearCase({ x: [1, 160], n: 640, bias: true, activation: "silu" }),
    linearCase({ x: [2, 128], n: 36, bias: true }),
    linearCase({ x: [3, 37], n: 50, bias: true, gate: [50], residual: true }),
    linearCase({ x: [4, 64], n: 1, dtype: "bf16" }),
    linearCase({ x: [5, 64], n: 32 }),
    linearCase({ x: [2, 8, 32], n: 96, bias: true, gate: [2, 1, 96], residual: true }),
    linearCase({ x: [2, 9, 32], n: 96, gate: [2, 9, 96] }),
    linearCase({ x: [3, 5, 7, 12], n: 20, gate: [3, 1, 1, 20], activation: "quick_gelu" }),
    linearCase({ x: [17, 60], n: 33, dtype: "f16", bias: true, activation: "silu" }),
    linearCase({ x: [17, 61], n: 34, dtype: "bf16", bias: true, activation: "gelu" }),
    linearCase({ x: [16, 63], n: 64, xDtype: "f16", dtype: "f16", residual: true }),
    linearCase({ x: [64, 128], n: 128, bias: true, activation: "gelu_tanh" }),
    linearCase({ x: [65, 16], n: 129, activation: "quick_gelu" }),
    linearCase({ x: [33, 20], n: 40, activation: "tanh" }),
    linearCase({ x: [35, 64], n: 36, dtype: "bf16", xMagnitude: 1e5, bias: true }),
    linearCase({ x: [300, 130], n: 257, bias: true }),
    linearCase({ x: [300, 132], n: 260, bias: true, residual: true }),
    linearCase({ x: [130, 256], n: 516, bias: true }),
    linearCase({ x: [2, 16, 40], n: 120, bias: true, parts: 3 }),
    linearCase({ x: [3, 20], n: 24, dtype: "bf16", parts: 2 }),
    linearCase({ x: [67, 64], n: 264, bias: true, activation: "silu", parts: 2 }),
    linearCase({ x: [9, 64], n: 96, format: "q8_0", bias: true, parts: 3 }),
    // Several bands of columns, of which the last one is not full.
    linearCase({ x: [24, 2048], n: 332, bias: true }),
    linearCase({ x: [40, 512], n: 70, bias: true, residual: true }),
    linearCase({ x: [36, 512], n: 68, format: "q8_0", bias: true }),
    ...QUANTIZED.flatMap(([format, step]) => quantizedCases(format, step)),
    linearCase({ x: [2, 64], n: 20, format: "f8_e4m3", scale: 0.37, bias: true }),
    linearCase({ x: [130, 36], n: 20, format: "f8_e4m3", scale: -3, residual: true }),
    ...lowRankCases(),
    ...normCases(),
    ...gluCases(),
  ],
  heavy: [
    linearCase({ x: [132, 1024], n: 520, bias: true, gate: [520], residual: true }),
    linearCase({ x: [150, 1024], n: 512, format: "q8_0", bias: true, activation: "silu" }),
    linearCase({ x: [20, 2048], n: 1704, dtype: "bf16", bias: true, parts: 2 }),
    linearCase({ x: [131, 1024], n: 513, norm: { weight: [1024] } }),
  ],
};

/**
 * On weights of integers in blocks, with x rounded to int8: an element is then off by up to 1/254 of the largest of 32
 * neighbours, and the worst sum by up to 1 % of the largest result, less where sums are long.
 */
export const LINEAR_INT8_SUITE: OpSuite = {
  operands: "int8",
  variants: ["int8"],
  cases: [
    ...QUANTIZED.filter(([format]) => BLOCK_FORMATS[format].integerBits !== undefined)
      .flatMap(([format, step]) => quantizedCases(format, step)),
    linearCase({ x: [130, 160], n: 96, xDtype: "bf16", format: "q8_0" }),
    linearCase({ x: [70, 3072], n: 68, format: "q8_0" }),
    linearCase({
      x: [67, 96],
      n: 136,
      rank: 4,
      downFormat: "q8_0",
      format: "q8_0",
      activation: "silu",
      glu: "first",
    }),
    linearCase({ x: [67, 64], n: 132, rank: 33, downFormat: "q8_0", format: "q8_0", bias: true }),
    linearCase({
      x: [9, 96],
      n: 34,
      rank: 4,
      downFormat: "q8_0",
      format: "q8_0",
      activation: "silu",
    }),
  ].map((testCase) => ({ ...testCase, tolerance: 1e-2 })),
};

/** What models use: every format, scales below the normal f16 numbers, low-rank branches, narrow products. */
export const LINEAR_CHECKS: readonly Check[] = [
  { name: "linear", cases: LINEAR_SUITE.cases.slice(0, 2) },
  ...QUANTIZED.map(([format, step]) => ({
    name: `linear: ${format} weights`,
    cases: [linearCase({ x: [67, 2 * step], n: 130, format, bias: true })],
  })),
  {
    name: "linear: scales below the normal f16 numbers",
    cases: QUANTIZED.filter(([format]) => SUBNORMAL.has(format)).map(([format, step]) =>
      smallScales(format, step)
    ),
  },
  {
    name: "linear: low-rank branch",
    cases: [linearCase({ x: [67, 64], n: 132, rank: 32, format: "q8_0", bias: true })],
  },
  {
    name: "linear: int8 products",
    variant: "int8",
    cases: [
      LINEAR_INT8_SUITE.cases[0]!,
      linearCase({ x: [67, 512], n: 130, format: "q4_k" }),
      linearCase({ x: [67, 512], n: 130, format: "q6_k" }),
    ].map((testCase) => ({ ...testCase, tolerance: 1e-2 })),
  },
  matrixCheck("linear", "matrix32", [
    linearCase({ x: [67, 64], n: 130, dtype: "bf16" }),
    linearCase({ x: [67, 64], n: 130, format: "q8_0", bias: true }),
  ]),
];
