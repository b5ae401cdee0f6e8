import { roundUp } from "../../shape.ts";
import type { Kernel } from "../../shaders/assemble.ts";
import type { ConvFeatures } from "../../shaders/conv_common.ts";
import { CONV_LANES, convRegistersKernel } from "../../shaders/conv_registers.ts";
import { convTilesKernel, convTilesMemory } from "../../shaders/conv_tiles.ts";
import { hasSubgroupsOf, type Variant } from "../variants.ts";

/** What the choice of tiles depends on. */
export interface ConvProblem {
  /** Output channels. */
  readonly channels: number;
  /** Output pixels of one frame. */
  readonly pixels: number;
}

/** A way to convolve. */
export interface ConvVariant extends Variant<ConvProblem> {
  /** Whether frames before the first may come in a tensor of their own; else they are joined to the input before. */
  readonly takesCache: boolean;
  /** The kernel, and how many pixels and channels one of its workgroups computes. */
  kernel(
    features: ConvFeatures,
    problem: ConvProblem,
  ): { kernel: Kernel; tile: { pixels: number; channels: number } };
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
    kernel(features, problem) {
      const { pixels, channels } = tileOf(problem);
      return {
        kernel: convRegistersKernel({ ...features, pixels, channels, broadcasts }),
        tile: { pixels: CONV_LANES * pixels, channels },
      };
    },
  };
}

// Wider tiles are a tenth faster and take three times as long to compile.
const REGISTERS = registersVariant("registers", false, ({ channels, pixels }) => ({
  pixels: pixels <= 2 * CONV_LANES ? 2 : 8,
  channels: channels <= 4 ? 4 : 8,
}));

// Weights cost an eighth of a load each, so tiles are wide: 1.2 to 4 times as fast as `registers` over the shapes of
// autoencoders, mostly twice, and on a par with a linear layer of as much work.
const BROADCAST = registersVariant("broadcast", true, ({ channels }) => {
  const tiles = Math.ceil(channels / MAX_BROADCAST_CHANNELS);
  return { pixels: channels <= 4 ? 8 : 4, channels: roundUp(channels / tiles, 4) };
});

/** In order of preference within a class of adapters. */
export const CONV_VARIANTS: readonly ConvVariant[] = [
  BROADCAST,
  REGISTERS,
  {
    name: "tiles",
    schedule: "gpu",
    takesCache: true,
    supports: (_problem, { limits }) =>
      limits.maxWorkgroupInvocations >= 64 &&
      limits.maxWorkgroupMemoryBytes >= convTilesMemory(NARROW_TILE),
    kernel(features, problem) {
      const shape = problem.channels <= 16 ? NARROW_TILE : WIDE_TILE;
      return {
        kernel: convTilesKernel({ ...features, ...shape }),
        tile: {
          pixels: shape.pixelThreads * shape.pixels,
          channels: shape.channelThreads * shape.channels,
        },
      };
    },
  },
];
