/** What `output_quality` and `output_compression` of a request mean. */

/** What a result is, as far as its default quality depends on it. */
type OutputMedia = "image" | "video";

/** Quality of results where the request says nothing. */
const DEFAULT_QUALITY: Readonly<Record<OutputMedia, number>> = { image: 75, video: 50 };

const PRESETS: ReadonlyMap<string, number> = new Map([
  ["maximum", 100],
  ["high", 90],
  ["medium", 55],
  ["low", 35],
]);

/** What `output_quality` may say. */
export const QUALITY_PRESETS: readonly string[] = ["default", ...PRESETS.keys()];

/** One number for how well a result is kept, 0 (smallest) to 100 (best). */
export function resolveQuality(
  outputQuality: string | null | undefined,
  outputCompression: number | null | undefined,
  media: OutputMedia,
): number {
  if (outputCompression !== undefined && outputCompression !== null) {
    if (!(outputCompression >= 0 && outputCompression <= 100)) {
      throw new RangeError(
        `Cannot use output_compression ${outputCompression}: it must be between 0 and 100`,
      );
    }
    return outputCompression;
  }
  return PRESETS.get(outputQuality ?? "") ?? DEFAULT_QUALITY[media];
}
