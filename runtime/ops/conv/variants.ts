import { roundUp } from "../../shape.ts";
import type { Kernel } from "../../shaders/kernel.ts";
import matrixSource from "../../shaders/conv/matrix.wgsl" with { type: "text" };
import registersSource from "../../shaders/conv/registers.wgsl" with { type: "text" };
import tilesSource from "../../shaders/conv/tiles.wgsl" with { type: "text" };
import winogradSource from "../../shaders/conv/winograd.wgsl" with { type: "text" };
import type { ParamValues } from "../../shaders/expand.ts";
import { KernelFile } from "../../shaders/kernel_file.ts";
import type { Target } from "../../target.ts";
import {
  FEW_LARGE_TILES,
  matrixOrder,
  matrixTileOf,
  matrixUnitFor,
  tileParams,
} from "../matrix_unit.ts";
import { hasSubgroupsOf, MESA_SOFTWARE, type Variant } from "../variants.ts";

const MATRIX_FILE = new KernelFile("conv/matrix", matrixSource);
const REGISTERS_FILE = new KernelFile("conv/registers", registersSource);
const TILES_FILE = new KernelFile("conv/tiles", tilesSource);
const WINOGRAD_FILE = new KernelFile("conv/winograd", winogradSource);

/** Invocations per workgroup of the register kernels, and of a subgroup where one broadcasts to the others. */
const LANES = 8;

/** What the choice of tiles depends on. */
interface ConvProblem {
  readonly inChannels: number;
  /** Output channels. */
  readonly channels: number;
  /** Rows and columns of a frame of the result. */
  readonly height: number;
  readonly width: number;
  /** Frames of all videos of the result. */
  readonly frames: number;
  /** Frames, rows and columns of the kernel. */
  readonly taps: number;
  /** The input is seen at twice its size. */
  readonly isUpsampled: boolean;
  /** Columns of the kernel, and from one of its places in a row to the next. */
  readonly kernelWidth: number;
  readonly stride: number;
  /** Factors may be rounded to f16. */
  readonly mayRound: boolean;
  /** The input is to be normalised, and a kernel has a binding for what does that. */
  readonly takesNorm: boolean;
}

/** A way to convolve. */
interface ConvVariant extends Variant<ConvProblem> {
  /** Whether frames before the first may come in a tensor of their own; else they are joined to the input before. */
  readonly takesCache: boolean;
  /** Whether the kernel normalises the input as it loads it; else a kernel before it does. */
  readonly normalizes?: boolean;
  /** Whether the dispatch says whether there is a residual: a kernel less to compile. */
  asks?(problem: ConvProblem): boolean;
  /**
   * The kernel, and how many of its workgroups a frame and the channels take.
   *
   * @param features parameters of `shaders/conv/problem.wgsl`; CACHE only where `takesCache`
   */
  plan(
    features: ParamValues,
    problem: ConvProblem,
    target: Target,
  ): { kernel: Kernel; workgroups: [frame: number, channels: number] };
}

/** Outputs of a workgroup of `tiles`, which keeps 4 words of 4 elements of each operand in workgroup memory. */
interface Tile {
  readonly pixelThreads: number;
  /** Of an invocation. */
  readonly pixels: number;
  readonly channelThreads: number;
  readonly channels: number;
}

/** 128 x 128 outputs, 64 x 64, and 128 x 16 where there are few channels. */
const LARGE_TILE: Tile = { pixelThreads: 16, pixels: 8, channelThreads: 16, channels: 8 };
const WIDE_TILE: Tile = { pixelThreads: 8, pixels: 8, channelThreads: 8, channels: 8 };
const NARROW_TILE: Tile = { pixelThreads: 16, pixels: 8, channelThreads: 4, channels: 4 };

function workOf({ height, width, inChannels, channels }: ConvProblem): number {
  return height * width * inChannels * channels;
}

function isLight(problem: ConvProblem): boolean {
  return workOf(problem) <= ASKING;
}

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
  const tiles = 16 * 4 * (pixels + shape.channelThreads * shape.channels + 2);
  return tiles + tableBytes(problem, pixels);
}

/** Channels per invocation of `broadcast`: a fifth faster than 16, as long to compile as `registers`. */
const MAX_BROADCAST_CHANNELS = 32;

/** Tile of one invocation in the register kernels. */
interface RegisterTile {
  readonly pixels: number;
  /** A multiple of 4. */
  readonly channels: number;
}

function registersVariant(
  name: string,
  broadcasts: boolean,
  tileOf: (problem: ConvProblem) => RegisterTile,
  isSpare = false,
): ConvVariant {
  return {
    name,
    schedule: "cpu",
    racedOn: MESA_SOFTWARE,
    isSpare,
    // A second source of frames doubles the loads in the innermost loop and the time to compile it.
    takesCache: false,
    asks: (problem) => isSpare || isLight(problem),
    supports: (_problem, { features }) => !broadcasts || hasSubgroupsOf(LANES, features),
    plan(features, problem) {
      const { pixels, channels } = tileOf(problem);
      return {
        kernel: REGISTERS_FILE.kernel({
          ...features,
          PIXELS: pixels,
          CHANNELS: channels,
          BROADCASTS: broadcasts,
        }),
        workgroups: [
          Math.ceil(problem.height * problem.width / (LANES * pixels)),
          Math.ceil(problem.channels / channels),
        ],
      };
    },
  };
}

// Wider tiles are a tenth faster and take three times as long to compile.
const REGISTERS = registersVariant("registers", false, ({ channels, height, width }) => ({
  pixels: height * width <= 2 * LANES ? 2 : 8,
  channels: channels <= 4 ? 4 : 8,
}));

// One short kernel for convolutions of all sizes.
const REGISTERS_4 = registersVariant("registers4", false, () => ({ pixels: 4, channels: 4 }), true);

// Weights cost an eighth of a load each, so tiles are wide: 1.2 to 4 times as fast as `registers` over the shapes of
// autoencoders, mostly twice.
const BROADCAST = registersVariant("broadcast", true, ({ channels }) => {
  const tiles = Math.ceil(channels / MAX_BROADCAST_CHANNELS);
  return { pixels: channels <= 4 ? 8 : 4, channels: roundUp(channels / tiles, 4) };
});

/** Output channels per invocation of `winograd`: with more the code would not fit the first cache. */
const WINOGRAD_CHANNELS = 16;
/** Pixels times channels times channels of a convolution that is over sooner than a kernel for fewer of them is compiled. */
const SMALL = 2 ** 20;
/** Those up to which a kernel more takes longer to compile than it saves in hundreds of images. */
const ASKING = 2 ** 24;
/** Pixels of so many channels, 1 KiB or a multiple of it, push each other out of the first cache: fewer are taken. */
const CLASHING_CHANNELS = 256;

const WINOGRAD: ConvVariant = {
  name: "winograd",
  schedule: "cpu",
  racedOn: MESA_SOFTWARE,
  takesCache: false,
  asks: isLight,
  supports: ({ kernelWidth, stride }, { features }) =>
    kernelWidth === 3 && stride === 1 && hasSubgroupsOf(LANES, features),
  plan(features, problem) {
    const tiles = Math.ceil(problem.channels / WINOGRAD_CHANNELS);
    const fitting = roundUp(problem.channels / tiles, 4);
    const isSmall = workOf(problem) <= SMALL;
    const channels = isSmall && fitting > WINOGRAD_CHANNELS / 2 ? WINOGRAD_CHANNELS : fitting;
    const pairs = problem.width <= 4 || problem.inChannels % CLASHING_CHANNELS === 0 ? 2 : 4;
    const runs = Math.ceil(problem.width / (2 * pairs)) * problem.height;
    return {
      kernel: WINOGRAD_FILE.kernel({
        ...features,
        PAIRS: pairs,
        CHANNELS: channels,
        ...(!isLight(problem) && { LEAVING: pairs }),
      }),
      workgroups: [Math.ceil(runs / LANES), Math.ceil(problem.channels / channels)],
    };
  },
};

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

const MATRIX_VARIANTS: readonly ConvVariant[] = [
  ...withNormalizing(matrixVariant("matrix128x128", 128, 128)),
  matrixVariant("matrix128", 128, 64),
  ...withNormalizing(matrixVariant("matrix64", 64, 64)),
  matrixVariant("matrix32", 32, 32),
];

function tilesVariant(
  name: string,
  shapeOf: (problem: ConvProblem) => Tile,
  suits: (problem: ConvProblem) => boolean = () => true,
): ConvVariant {
  return {
    name,
    schedule: "gpu",
    takesCache: true,
    supports(problem, { limits }) {
      const shape = shapeOf(problem);
      return suits(problem) &&
        limits.maxWorkgroupInvocations >= shape.pixelThreads * shape.channelThreads &&
        limits.maxWorkgroupMemoryBytes >= tilesBytes(shape, problem);
    },
    plan(features, problem) {
      const { channels, height, width } = problem;
      const shape = shapeOf(problem);
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

const TILES_VARIANTS: readonly ConvVariant[] = [
  // Where a smaller tile holds the result, most of this one would be idle.
  tilesVariant(
    "tiles128",
    () => LARGE_TILE,
    ({ channels, height, width }) => channels > 64 && height * width > 64,
  ),
  tilesVariant("tiles", ({ channels }) => channels <= 16 ? NARROW_TILE : WIDE_TILE),
].flatMap(withNormalizing);

const SMALL_TILES_FIRST = [...TILES_VARIANTS.slice(2), ...TILES_VARIANTS.slice(0, 2)];

/** All ways to convolve; their order depends on the problem. */
export const CONV_VARIANTS: readonly ConvVariant[] = [
  WINOGRAD,
  BROADCAST,
  REGISTERS,
  ...MATRIX_VARIANTS,
  ...TILES_VARIANTS,
  REGISTERS_4,
];

/** The ways to convolve in the order of preference for a problem, within a class of adapters. */
export function convByPreference(problem: ConvProblem): readonly ConvVariant[] {
  const { channels, height, width, frames } = problem;
  const order = matrixOrder(height * width, channels, frames);
  const place = ({ name }: ConvVariant) => order.indexOf(name.replace(/-norm$/, ""));
  const matrix = MATRIX_VARIANTS.toSorted((a, b) => place(a) - place(b));
  const large = Math.ceil(height * width / 128) * Math.ceil(channels / 128) * frames;
  const tiles = large >= FEW_LARGE_TILES ? TILES_VARIANTS : SMALL_TILES_FIRST;
  return [WINOGRAD, BROADCAST, REGISTERS, ...matrix, ...tiles, REGISTERS_4];
}
