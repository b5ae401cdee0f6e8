/** Reference images: what shall be seen in the result, by VACE or by IP-Adapters. */
import { excerpt } from "../../hub/json_file.ts";
import type { IpAdapterMode, OptionalSettings } from "./settings.ts";
import type { PipelineInfo, PipelineRequest } from "./types.ts";
import { SettingError } from "../setting_error.ts";

export const IP_ADAPTER_SETTINGS = [
  "ipAdapterName",
  "ipAdapterScale",
  "ipAdapterMode",
  "ipAdapterStart",
  "ipAdapterEnd",
] as const satisfies readonly (keyof OptionalSettings)[];

type ReferenceRequest = Pick<
  PipelineRequest,
  "references" | "referenceMasks" | "referenceMethod" | typeof IP_ADAPTER_SETTINGS[number]
>;

type Adapters = NonNullable<PipelineInfo["ipAdapters"]>;

/** Reference images that are seen together: by one IP-Adapter, in one way. */
export interface ImageGroup {
  /** Its place among the model's. */
  readonly adapter: number;
  /** Places of the images in the request. */
  readonly images: readonly number[];
  /** Whether the result shows it in a part only; such an image is seen by itself. */
  readonly isMasked: boolean;
  readonly mode: IpAdapterMode;
  readonly scale: number;
  readonly start: number;
  readonly end: number;
}

/** Images of one IP-Adapter with equal settings are seen together, as in diffusers; others by themselves. */
export function imageGroups(
  request: ReferenceRequest,
  adapters: Adapters,
  count: number = request.references?.length ?? 0,
): ImageGroup[] {
  const isMasked = request.referenceMasks !== undefined;
  const groups: (ImageGroup & { readonly images: number[] })[] = [];
  for (let i = 0; i < count; i++) {
    const of = <T>(values: readonly T[] = []) => values.length === 1 ? values[0] : values[i];
    const own = {
      adapter: adapterOf(of(request.ipAdapterName), i, adapters),
      isMasked,
      mode: of(request.ipAdapterMode) ?? "all" as const,
      scale: of(request.ipAdapterScale) ?? 1,
      start: of(request.ipAdapterStart) ?? 0,
      end: of(request.ipAdapterEnd) ?? 1,
    };
    const names = Object.keys(own) as (keyof typeof own)[];
    const same = groups.find((group) => names.every((name) => group[name] === own[name]));
    if (same && !isMasked) same.images.push(i);
    else groups.push({ ...own, images: [i] });
  }
  return groups;
}

/** Of one IP-Adapter that, of several the named one, or that of the image's place. */
function adapterOf(name: string | undefined, place: number, adapters: Adapters): number {
  if (name !== undefined) return adapters.findIndex((adapter) => adapter.name === name);
  return adapters.length === 1 ? 0 : place;
}

/** What is wrong with the reference images of a request, and the setting that is. */
export interface ReferenceProblem {
  readonly field:
    | "references"
    | "referenceMasks"
    | "referenceMethod"
    | typeof IP_ADAPTER_SETTINGS[number];
  readonly text: string;
}

/** @param count of reference images and of their masks, where the request does not hold them yet */
export function referenceProblem(
  request: ReferenceRequest,
  { optionalParts, ipAdapters = [] }: Pick<PipelineInfo, "optionalParts" | "ipAdapters">,
  count: number = request.references?.length ?? 0,
  masks: number = request.referenceMasks?.length ?? 0,
): ReferenceProblem | undefined {
  const problem = (field: ReferenceProblem["field"], text: string) => ({ field, text });
  if (masks > 0 && !optionalParts.includes("ipAdapter")) {
    return problem(
      "referenceMasks",
      "Cannot use masks of reference images: the model has no IP-Adapter; omit them",
    );
  }
  if (masks > 0 && masks !== count) {
    return problem(
      "referenceMasks",
      `Cannot use ${masks} masks for ${count} reference images: give one for each; a white one shows the image everywhere`,
    );
  }
  const settings = ["referenceMethod", ...IP_ADAPTER_SETTINGS] as const;
  const given = settings.filter((name) => request[name] !== undefined);
  if (count === 0) {
    const [idle] = given;
    return idle && problem(
      idle,
      `Cannot use ${idle}: the request has no reference image; give one, or omit ${idle}`,
    );
  }
  if (!optionalParts.includes("ipAdapter")) return undefined;
  const wrong = IP_ADAPTER_SETTINGS.find((name) =>
    request[name] && ![1, count].includes(request[name]!.length)
  );
  if (wrong) {
    const all = count > 1 ? `one for all ${count} reference images, or one for each` : "one";
    return problem(wrong, `Cannot use ${request[wrong]!.length} values of ${wrong}: give ${all}`);
  }
  const names = ipAdapters.map(({ name }) => name).join(", ");
  const foreign = request.ipAdapterName?.find((name) =>
    !ipAdapters.some((adapter) => adapter.name === name)
  );
  if (foreign !== undefined) {
    return problem(
      "ipAdapterName",
      `Cannot use the IP-Adapter ${excerpt(foreign)}: the model has ${names}`,
    );
  }
  if (!request.ipAdapterName && ipAdapters.length > 1 && count > ipAdapters.length) {
    return problem(
      "ipAdapterName",
      `Cannot use ${count} reference images without names: the model has ${ipAdapters.length} IP-Adapters, ${names}; say ` +
        "with ipAdapterName which sees each image",
    );
  }
  const late = imageGroups(request, ipAdapters, count).find(({ start, end }) => start >= end);
  if (!late) return undefined;
  return problem(
    "ipAdapterStart",
    `ipAdapterStart must be below ${late.end}, where they end, got ${late.start}`,
  );
}

export function checkReferences(request: PipelineRequest, info: PipelineInfo): void {
  const { references = [], referenceMasks = [] } = request;
  const { maxReferences = 0, referenceSide } = info;
  if (references.length > maxReferences) {
    throw new RangeError(
      `Cannot use ${references.length} reference images: this model takes ${
        maxReferences || "none"
      }`,
    );
  }
  for (const { width, height, data: { length } } of [...references, ...referenceMasks]) {
    const bytes = 3 * width * height;
    if (length === bytes) continue;
    throw new RangeError(
      `Cannot use a reference image of ${length} bytes: ${width}x${height} in RGB has ${bytes}`,
    );
  }
  for (const { width, height } of references) {
    if (!referenceSide || width === referenceSide && height === referenceSide) continue;
    throw new RangeError(
      `Cannot use a reference image of ${width}x${height}: the image encoder sees ${referenceSide}x${referenceSide}; ` +
        "scale it first",
    );
  }
  const problem = referenceProblem(request, info);
  if (problem) throw new SettingError(problem.field, problem.text);
}
