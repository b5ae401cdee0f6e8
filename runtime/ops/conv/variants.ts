import type { Kernel } from "../../shaders/assemble.ts";
import type { ConvFeatures } from "../../shaders/conv_common.ts";
import { CONV_LANES, convRegistersKernel } from "../../shaders/conv_registers.ts";
import { convTilesKernel, convTilesMemory } from "../../shaders/conv_tiles.ts";
import type { Variant } from "../variants.ts";

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
 * Workgroups of the second way: 64 x 64 outputs, or 128 x 16 where there are few channels. Both keep
 * 4 words of 4 elements of each operand in workgroup memory.
 */
const WIDE_TILE = { pixelThreads: 8, pixels: 8, channelThreads: 8, channels: 8 };
const NARROW_TILE = { pixelThreads: 16, pixels: 8, channelThreads: 4, channels: 4 };

/** In order of preference within a class of adapters. */
export const CONV_VARIANTS: readonly ConvVariant[] = [
  {
    name: "cpu",
    schedule: "cpu",
    // A second source of frames doubles the loads in the innermost loop and the time to compile it.
    takesCache: false,
    supports: () => true,
    kernel(features, problem) {
      // Wider tiles are a tenth faster and take three times as long to compile.
      const pixels = problem.pixels <= 2 * CONV_LANES ? 2 : 8;
      const channels = problem.channels <= 4 ? 4 : 8;
      return {
        kernel: convRegistersKernel({ ...features, pixels, channels }),
        tile: { pixels: CONV_LANES * pixels, channels },
      };
    },
  },
  {
    name: "gpu",
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
