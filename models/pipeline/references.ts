/** Reference images: what shall be seen in the result, by VACE or by an IP-Adapter. */
import type { OptionalSettings } from "./settings.ts";
import type { PipelineInfo, PipelineRequest } from "./types.ts";

export const IP_ADAPTER_SETTINGS = [
  "ipAdapterScale",
  "ipAdapterMode",
  "ipAdapterStart",
  "ipAdapterEnd",
] as const satisfies readonly (keyof OptionalSettings)[];

export function checkReferences(
  { references = [], ...request }: PipelineRequest,
  { maxReferences = 0, referenceSide, optionalParts }: PipelineInfo,
): void {
  if (references.length > maxReferences) {
    throw new RangeError(
      `Cannot use ${references.length} reference images: this model takes ${
        maxReferences || "none"
      }`,
    );
  }
  for (const { width, height, data: { length } } of references) {
    const bytes = 3 * width * height;
    if (length !== bytes) {
      throw new RangeError(
        `Cannot use a reference image of ${length} bytes: ${width}x${height} in RGB has ${bytes}`,
      );
    }
    if (!referenceSide || width === referenceSide && height === referenceSide) continue;
    throw new RangeError(
      `Cannot use a reference image of ${width}x${height}: the image encoder sees ${referenceSide}x${referenceSide}; ` +
        "scale it first",
    );
  }
  if (!optionalParts.includes("ipAdapter")) return;
  const idle = IP_ADAPTER_SETTINGS.find((name) => request[name] !== undefined);
  if (idle && references.length === 0) {
    throw new RangeError(
      `Cannot use ${idle}: the request has no reference image; give one, or omit ${idle}`,
    );
  }
  const { ipAdapterStart: start = 0, ipAdapterEnd: end = 1 } = request;
  if (start < end) return;
  throw new RangeError(
    `Cannot use reference images from ${start} to ${end} of the steps: they must begin before they end`,
  );
}
