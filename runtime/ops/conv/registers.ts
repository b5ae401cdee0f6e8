/** Convolutions on software adapters: which tile of registers an invocation computes. */
import { roundUp } from "../../shape.ts";
import registersSource from "../../shaders/conv/registers.wgsl" with { type: "text" };
import winogradSource from "../../shaders/conv/winograd.wgsl" with { type: "text" };
import { KernelFile } from "../../shaders/kernel_file.ts";
import { hasSubgroupsOf, MESA_SOFTWARE } from "../variants.ts";
import type { ConvProblem, ConvVariant } from "./problem.ts";

const REGISTERS_FILE = new KernelFile("conv/registers", registersSource);
const WINOGRAD_FILE = new KernelFile("conv/winograd", winogradSource);

/** Invocations per workgroup of the register kernels, and of a subgroup where one broadcasts to the others. */
const LANES = 8;

function workOf({ height, width, inChannels, channels }: ConvProblem): number {
  return height * width * inChannels * channels;
}

function isLight(problem: ConvProblem): boolean {
  return workOf(problem) <= ASKING;
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
export const REGISTERS = registersVariant("registers", false, ({ channels, height, width }) => ({
  pixels: height * width <= 2 * LANES ? 2 : 8,
  channels: channels <= 4 ? 4 : 8,
}));

// Weights cost an eighth of a load each, so tiles are wide: 1.2 to 4 times as fast as `registers` over the shapes of
// autoencoders, mostly twice.
export const BROADCAST = registersVariant("broadcast", true, ({ channels }) => {
  const tiles = Math.ceil(channels / MAX_BROADCAST_CHANNELS);
  return { pixels: channels <= 4 ? 8 : 4, channels: roundUp(channels / tiles, 4) };
});

// One short kernel for convolutions of all sizes.
export const BROADCAST_8 = registersVariant(
  "broadcast8",
  true,
  () => ({ pixels: 2, channels: 8 }),
  true,
);

/** Output channels per invocation of `winograd`: with more the code would not fit the first cache. */
const WINOGRAD_CHANNELS = 16;
/** Pixels times channels times channels of a convolution that is over sooner than a kernel for fewer of them is compiled. */
const SMALL = 2 ** 20;
/** Those up to which a kernel more takes longer to compile than it saves in hundreds of images. */
const ASKING = 2 ** 24;
/** Pixels of so many channels, 1 KiB or a multiple of it, push each other out of the first cache: fewer are taken. */
const CLASHING_CHANNELS = 256;

export const WINOGRAD: ConvVariant = {
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
