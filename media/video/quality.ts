/** Quality and effort of video files. */

/** Presets of x264, from the fastest to the one that keeps most in a file of the same size. */
export const X264_PRESETS = [
  "ultrafast",
  "superfast",
  "veryfast",
  "faster",
  "fast",
  "medium",
  "slow",
  "slower",
  "veryslow",
  "placebo",
] as const;

/** An effort of the encoder, one of {@link X264_PRESETS}. */
export type X264Preset = typeof X264_PRESETS[number];

/** The preset of a request that names none. */
export const DEFAULT_X264_PRESET: X264Preset = "fast";

/** The coarsest constant rate factor of x264 at 8 bits. */
const WORST_CRF = 51;

/** The constant rate factor, 51 to 0, for a quality of 0 (smallest file) to 100 (lossless), on a straight line. */
export function crfOfQuality(quality: number): number {
  // Tenths first: 1 - 90/100 is a hair above 0.1 in binary, and 5.1 must not become 6.
  return Math.floor((WORST_CRF * (100 - quality)) / 100);
}
