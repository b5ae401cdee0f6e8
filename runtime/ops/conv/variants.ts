import { roundUp } from "../../shape.ts";
import type { Kernel } from "../../shaders/assemble.ts";
import type { ConvFeatures } from "../../shaders/conv_common.ts";
import { CONV_LANES, convRegistersKernel } from "../../shaders/conv_registers.ts";
import { convTilesKernel, convTilesMemory } from "../../shaders/conv_tiles.ts";
import { convWinogradKernel } from "../../shaders/conv_winograd.ts";
import { convMatrixBytes, convMatrixKernel } from "../../shaders/conv_matrix.ts";
import type { Target } from "../../target.ts";
import { matrixUnitOf } from "../matrix_unit.ts";
import { hasSubgroupsOf, type Variant } from "../variants.ts";

/** What the choice of tiles depends on. */
export interface ConvProblem {
  readonly inChannels: number;
  /** Output channels. */
  readonly channels: number;
  /** Rows and columns of a frame of the result. */
  readonly height: number;
  readonly width: number;
  /** Columns of the kernel, and from one of its places in a row to the next. */
  readonly kernelWidth: number;
  readonly stride: number;
  /** Factors may be rounded to f16. */
  readonly mayRound: boolean;
}

/** A way to convolve. */
export interface ConvVariant extends Variant<ConvProblem> {
  /** Whether frames before the first may come in a tensor of their own; else they are joined to the input before. */
  readonly takesCache: boolean;
  /** The kernel, and how many of its workgroups a frame and the channels take. */
  plan(
    features: ConvFeatures,
    problem: ConvProblem,
    target: Target,
  ): { kernel: Kernel; workgroups: [frame: number, channels: number] };
}

/**
 * Workgroups of `tiles`: 64 x 64 outputs, or 128 x 16 where there are few channels. Both keep
 * 4 words of 4 elements of each operand in workgroup memory.
 */
const WIDE_TILE = { pixelThreads: 8, pixels: 8, channelThreads: 8, channels: 8 };
const NARROW_TILE = { pixelThreads: 16, pixels: 8, channelThreads: 4, channels: 4 };

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
): ConvVariant {
  return {
    name,
    schedule: "cpu",
    // A second source of frames doubles the loads in the innermost loop and the time to compile it.
    takesCache: false,
    supports: (_problem, { features }) => !broadcasts || hasSubgroupsOf(CONV_LANES, features),
    plan(features, problem) {
      const { pixels, channels } = tileOf(problem);
      return {
        kernel: convRegistersKernel({ ...features, pixels, channels, broadcasts }),
        workgroups: [
          Math.ceil(problem.height * problem.width / (CONV_LANES * pixels)),
          Math.ceil(problem.channels / channels),
        ],
      };
    },
  };
}

// Wider tiles are a tenth faster and take three times as long to compile.
const REGISTERS = registersVariant("registers", false, ({ channels, height, width }) => ({
  pixels: height * width <= 2 * CONV_LANES ? 2 : 8,
  channels: channels <= 4 ? 4 : 8,
}));

// Weights cost an eighth of a load each, so tiles are wide: 1.2 to 4 times as fast as `registers` over the shapes of
// autoencoders, mostly twice.
const BROADCAST = registersVariant("broadcast", true, ({ channels }) => {
  const tiles = Math.ceil(channels / MAX_BROADCAST_CHANNELS);
  return { pixels: channels <= 4 ? 8 : 4, channels: roundUp(channels / tiles, 4) };
});

/** Output channels per invocation of `winograd`: with more the code would not fit the first cache. */
const WINOGRAD_CHANNELS = 16;
/** Pixels of so many channels, 1 KiB or a multiple of it, push each other out of the first cache: fewer are taken. */
const CLASHING_CHANNELS = 256;

const WINOGRAD: ConvVariant = {
  name: "winograd",
  schedule: "cpu",
  takesCache: false,
  supports: ({ kernelWidth, stride }, { features }) =>
    kernelWidth === 3 && stride === 1 && hasSubgroupsOf(CONV_LANES, features),
  plan(features, problem) {
    const tiles = Math.ceil(problem.channels / WINOGRAD_CHANNELS);
    const channels = roundUp(problem.channels / tiles, 4);
    const pairs = problem.width <= 4 || problem.inChannels % CLASHING_CHANNELS === 0 ? 2 : 4;
    const runs = Math.ceil(problem.width / (2 * pairs)) * problem.height;
    return {
      kernel: convWinogradKernel({ ...features, pairs, channels }),
      workgroups: [Math.ceil(runs / CONV_LANES), Math.ceil(problem.channels / channels)],
    };
  },
};

// Of real cards remain to be measured: both tiles against each other and against `tiles`, for few channels above all.
function matrixVariant(name: string, side: 32 | 64): ConvVariant {
  return {
    name,
    schedule: "gpu",
    takesCache: true,
    supports({ channels, height, width, mayRound }, target) {
      const unit = matrixUnitOf(target);
      // Where a smaller tile holds the result, most of this one would be idle.
      const fits = side === 32 || (channels > side / 2 && height * width > side / 2);
      return mayRound && fits && unit !== undefined &&
        convMatrixBytes({ unit, rows: side, columns: side }) <=
          target.limits.maxWorkgroupMemoryBytes;
    },
    plan(features, { channels, height, width }, target) {
      const tile = { unit: matrixUnitOf(target)!, rows: side, columns: side };
      return {
        kernel: convMatrixKernel({ ...features, tile }),
        workgroups: [Math.ceil(height * width / side), Math.ceil(channels / side)],
      };
    },
  };
}

/** In order of preference within a class of adapters. */
export const CONV_VARIANTS: readonly ConvVariant[] = [
  WINOGRAD,
  BROADCAST,
  REGISTERS,
  matrixVariant("matrix64", 64),
  matrixVariant("matrix32", 32),
  {
    name: "tiles",
    schedule: "gpu",
    takesCache: true,
    supports: (_problem, { limits }) =>
      limits.maxWorkgroupInvocations >= 64 &&
      limits.maxWorkgroupMemoryBytes >= convTilesMemory(NARROW_TILE),
    plan(features, { channels, height, width }) {
      const shape = channels <= 16 ? NARROW_TILE : WIDE_TILE;
      return {
        kernel: convTilesKernel({ ...features, ...shape }),
        workgroups: [
          Math.ceil(height * width / (shape.pixelThreads * shape.pixels)),
          Math.ceil(channels / (shape.channelThreads * shape.channels)),
        ],
      };
    },
  },
];
