/** Convolutions on GPUs: as products of pixels by channels, in tiles. */
import { roundUp } from "../../shape.ts";
import matrixSource from "../../shaders/conv/matrix.wgsl" with { type: "text" };
import tilesSource from "../../shaders/conv/tiles.wgsl" with { type: "text" };
import { KernelFile } from "../../shaders/kernel_file.ts";
import type { Target } from "../../target.ts";
import { matrixTileOf, matrixUnitFor, tileParams } from "../matrix_unit.ts";
import { hasFewRegisters } from "../variants.ts";
import type { ConvProblem, ConvVariant } from "./problem.ts";

const MATRIX_FILE = new KernelFile("conv/matrix", matrixSource);
const TILES_FILE = new KernelFile("conv/tiles", tilesSource);

/** Outputs of a workgroup of `tiles`, which keeps 4 words of 4 elements of each operand in workgroup memory. */
interface Tile {
  readonly pixelThreads: number;
  /** Of an invocation. */
  readonly pixels: number;
  readonly channelThreads: number;
  readonly channels: number;
}

/** 128 x 128 outputs, 64 x 64, and 128 x 16 where there are few channels; half as many of an invocation where registers are few. */
const LARGE_TILE: Tile = { pixelThreads: 16, pixels: 8, channelThreads: 16, channels: 8 };
const WIDE_TILE: Tile = { pixelThreads: 8, pixels: 8, channelThreads: 8, channels: 8 };
const NARROW_TILE: Tile = { pixelThreads: 16, pixels: 8, channelThreads: 4, channels: 4 };

/** Taps by which tables of them grow, so that kernels of different sizes share one: 32 hold all of 3 x 3 x 3. */
const TABLE_STEP = 32;

/** The table of taps, a parameter of kernels that have one. */
function tableParams({ taps, isUpsampled }: ConvProblem): { TAPS: number; UPSAMPLED: boolean } {
  return { TAPS: roundUp(taps, TABLE_STEP), UPSAMPLED: isUpsampled };
}

/** Bytes of workgroup memory of the table, and of where each of the pixels begins. */
function tableBytes(problem: ConvProblem, pixels: number): number {
  return 16 * (tableParams(problem).TAPS + 1 + pixels);
}

/** Bytes of workgroup memory of `tiles`: both tiles, and the table. */
function tilesBytes(shape: Tile, problem: ConvProblem): number {
  const pixels = shape.pixelThreads * shape.pixels;
  const tiles = 16 * 4 *
    ((shape.pixelThreads + 2) * shape.pixels + (shape.channelThreads + 2) * shape.channels);
  return tiles + tableBytes(problem, pixels);
}

// Of real cards remain to be measured: all tiles against each other and against `tiles`, for few channels above all.
function matrixVariant(name: string, rows: number, columns: number): ConvVariant {
  const tileOf = (problem: ConvProblem, target: Target) => {
    const unit = matrixUnitFor(problem.mayRound, target);
    return unit && matrixTileOf(unit, rows, columns, "nk", target, tableBytes(problem, rows));
  };
  return {
    name,
    schedule: "gpu",
    takesCache: true,
    supports(problem, target) {
      const { channels, height, width } = problem;
      // Where a smaller tile holds the result, most of this one would be idle.
      const fits = rows === 32 || (channels > columns / 2 && height * width > rows / 2);
      return fits && tileOf(problem, target) !== undefined;
    },
    plan(features, problem, target) {
      const { channels, height, width } = problem;
      return {
        kernel: MATRIX_FILE.kernel({
          ...features,
          ...tableParams(problem),
          ...tileParams(tileOf(problem, target)!),
        }),
        workgroups: [Math.ceil(height * width / rows), Math.ceil(channels / columns)],
      };
    },
  };
}

/** The variant, and one that also normalises: a pass over memory less, and the activation again for every tap. */
function withNormalizing(variant: ConvVariant): readonly ConvVariant[] {
  return [
    {
      ...variant,
      name: `${variant.name}-norm`,
      normalizes: true,
      supports: (problem, target) => problem.takesNorm && variant.supports(problem, target),
    },
    variant,
  ];
}

export const MATRIX_VARIANTS: readonly ConvVariant[] = [
  ...withNormalizing(matrixVariant("matrix128x128", 128, 128)),
  matrixVariant("matrix128", 128, 64),
  ...withNormalizing(matrixVariant("matrix64", 64, 64)),
  matrixVariant("matrix32", 32, 32),
];

function tilesVariant(
  name: string,
  tileOf: (problem: ConvProblem) => Tile,
  suits: (problem: ConvProblem) => boolean = () => true,
): ConvVariant {
  const shapeOf = (problem: ConvProblem, { features }: Target) => {
    const tile = tileOf(problem);
    // Inputs that are no whole words, as images, need registers for the places of four elements.
    const isNarrow = problem.inChannels % 4 !== 0;
    if (!hasFewRegisters(features)) return isNarrow ? { ...tile, pixels: 4 } : tile;
    return { ...tile, channels: 4, pixels: isNarrow || tile.channels === 4 ? 4 : tile.pixels };
  };
  return {
    name,
    schedule: "gpu",
    takesCache: true,
    supports(problem, target) {
      const { limits } = target;
      const shape = shapeOf(problem, target);
      return suits(problem) &&
        limits.maxWorkgroupInvocations >= shape.pixelThreads * shape.channelThreads &&
        limits.maxWorkgroupMemoryBytes >= tilesBytes(shape, problem);
    },
    plan(features, problem, target) {
      const { channels, height, width } = problem;
      const shape = shapeOf(problem, target);
      return {
        kernel: TILES_FILE.kernel({
          ...features,
          ...tableParams(problem),
          PIXEL_THREADS: shape.pixelThreads,
          PIXELS: shape.pixels,
          CHANNEL_THREADS: shape.channelThreads,
          CHANNELS: shape.channels,
        }),
        workgroups: [
          Math.ceil(height * width / (shape.pixelThreads * shape.pixels)),
          Math.ceil(channels / (shape.channelThreads * shape.channels)),
        ],
      };
    },
  };
}

export const TILES_VARIANTS: readonly ConvVariant[] = [
  // Where a smaller tile holds the result, most of this one would be idle.
  tilesVariant(
    "tiles128",
    () => LARGE_TILE,
    ({ channels, height, width }) => channels > 64 && height * width > 64,
  ),
  tilesVariant("tiles", ({ channels }) => channels <= 16 ? NARROW_TILE : WIDE_TILE),
].flatMap(withNormalizing);
