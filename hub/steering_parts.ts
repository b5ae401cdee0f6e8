/** ControlNets and IP-Adapters in this machine's cache: which there are, and how many a model is opened with. */

import { cachedPart } from "./cached_parts.ts";
import type { CatalogueModel } from "./catalogue.ts";
import { CATALOGUE_PARTS, type CataloguePart, partNamed } from "./catalogue_parts.ts";
import { NotFoundError } from "../platform/mod.ts";
import { CONTROLNET_PARTS, IP_ADAPTER_PARTS } from "./model_index.ts";

/** ControlNets and IP-Adapters by their names in the catalogue. */
export interface Steering {
  /** Names of ControlNets, in the order in which pictures go to them. */
  readonly controlNets: readonly string[];
  /** Names of IP-Adapters, in the order in which reference images go to them. */
  readonly ipAdapters: readonly string[];
}

export const NO_STEERING: Steering = { controlNets: [], ipAdapters: [] };

/** Families whose models take several at once. */
const SEVERAL: readonly string[] = ["SD 1 or SD 2", "SDXL", "FLUX.1", "Qwen-Image"];

export function isSteering(part: string): boolean {
  return part === "controlnet" || part === "ipAdapter";
}

/** ControlNets and IP-Adapters of the catalogue that the cache has. */
export async function cachedSteering(cacheFolder: string | undefined): Promise<CataloguePart[]> {
  const rows = CATALOGUE_PARTS.filter(({ part }) => isSteering(part));
  const places = await Promise.all(rows.map((row) => cachedPart(row, cacheFolder)));
  return rows.filter((_, i) => places[i] !== undefined);
}

/** Those that a model may take. */
export function steeringFor(
  { family, name }: Pick<CatalogueModel, "family" | "name">,
  there: readonly CataloguePart[],
): Steering {
  const fit = there.filter(({ families, notFor = [] }) =>
    families.includes(family) && !notFor.includes(name)
  );
  const of = (kind: CataloguePart["part"]) =>
    fit.filter(({ part }) => part === kind).map((row) => row.name);
  return { controlNets: of("controlnet"), ipAdapters: of("ipAdapter") };
}

/** Which image encoder an IP-Adapter sees by. */
function encoderOf(name: string): string {
  return /vit-h|sd15/.test(name) ? "ViT-H" : "ViT-bigG";
}

/** Whether a ControlNet sees an image and its mask instead of control pictures, so that it steers alone. */
function isAlone(name: string): boolean {
  return name === "qwen-image-controlnet-inpainting";
}

/** How many of each a model of a family is opened with at most. */
export function mostSteering(family: string): Readonly<Record<keyof Steering, number>> {
  const takesSeveral = SEVERAL.includes(family);
  return {
    controlNets: takesSeveral ? CONTROLNET_PARTS.length : 1,
    ipAdapters: takesSeveral ? IP_ADAPTER_PARTS.length : 1,
  };
}

/** What a model is opened with where nobody chose. T2I-Adapters are chosen: models make fewer sizes with them. */
export function usualSteering({ controlNets, ipAdapters }: Steering, family: string): Steering {
  const [first = ""] = ipAdapters;
  const usual = controlNets.filter((name) => !name.includes("t2i-adapter"));
  const together = usual.filter((name) => !isAlone(name));
  return {
    controlNets: (together.length > 0 ? together : usual)
      .slice(0, mostSteering(family).controlNets),
    ipAdapters: ipAdapters.filter((name) => encoderOf(name) === encoderOf(first))
      .slice(0, mostSteering(family).ipAdapters),
  };
}

/** @throws {RangeError} for what is not there, or too much */
export function checkSteering(wanted: Steering, available: Steering, family: string): void {
  const most = mostSteering(family);
  const kinds = [
    ["controlNets", "ControlNet", most.controlNets],
    ["ipAdapters", "IP-Adapter", most.ipAdapters],
  ] as const;
  for (const [kind, word, most] of kinds) {
    const missing = wanted[kind].find((name) => !available[kind].includes(name));
    if (missing !== undefined) {
      throw new RangeError(
        `Cannot use the ${word} ${missing.slice(0, 80)}: this machine has ${
          available[kind].join(", ") || "none"
        } for this model; fetch others with POST /v1/pulls`,
      );
    }
    if (new Set(wanted[kind]).size > most) {
      throw new RangeError(
        `Cannot use ${wanted[kind].length} ${word}s at once: this model takes ${most}; omit others`,
      );
    }
  }
  const alone = wanted.controlNets.find(isAlone);
  if (alone !== undefined && new Set(wanted.controlNets).size > 1) {
    throw new RangeError(
      `Cannot use ${alone} beside other ControlNets: it sees an image and its mask, and no control pictures; choose it alone`,
    );
  }
  const [one, other] = [...new Set(wanted.ipAdapters.map(encoderOf))];
  if (other === undefined) return;
  throw new RangeError(
    `Cannot use these IP-Adapters together: they see by ${one} and ${other}; choose some of one encoder`,
  );
}

/** The parts as an engine takes them. */
export function steeringParts({ controlNets, ipAdapters }: Steering): Record<string, string> {
  const placed = (names: readonly string[], parts: readonly string[]) =>
    [...new Set(names)].map((name, i): [string, string] => [parts[i]!, name]);
  return Object.fromEntries([
    ...placed(controlNets, CONTROLNET_PARTS),
    ...placed(ipAdapters, IP_ADAPTER_PARTS),
  ]);
}

/** The places of such parts, so that opening a model fetches nothing. @throws {NotFoundError} for a part that is gone meanwhile */
export async function steeringPlaces<Parts extends object>(
  parts: Parts,
  cacheFolder: string | undefined,
): Promise<Parts> {
  const places = Object.entries(parts).map(async ([part, name]) => {
    const row = typeof name === "string" ? partNamed(name) : undefined;
    if (!row) return [part, name];
    const place = await cachedPart(row, cacheFolder);
    if (place !== undefined) return [part, place];
    throw new NotFoundError(`Cannot open the model with ${name}: it was deleted`);
  });
  return Object.fromEntries(await Promise.all(places));
}
