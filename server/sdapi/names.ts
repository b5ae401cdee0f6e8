/** The samplers and schedules of a model, as clients of Stable Diffusion WebUI know them. */

import type { ModelInfo } from "../../engine/types.ts";
import { OWN_NAMES, WEBUI_SAMPLERS, WEBUI_SCHEDULES } from "../../generation/recipe.ts";

/** For `GET /sdapi/v1/samplers`; the model's own is the first. */
export function samplersOf({ optionalSettings, sampling }: ModelInfo): Record<string, unknown>[] {
  const others = optionalSettings.includes("sampler")
    ? [...WEBUI_SAMPLERS].filter(([, own]) => sampling.samplers.includes(own))
    : [];
  return [[OWN_NAMES.sampler, "default"] as const, ...others].map(([name, own]) => ({
    name,
    aliases: [own],
    options: {},
  }));
}

/** For `GET /sdapi/v1/schedulers`; the model's own is the first. */
export function schedulesOf({ optionalSettings, sampling }: ModelInfo): Record<string, unknown>[] {
  const others = optionalSettings.includes("scheduler")
    ? [...WEBUI_SCHEDULES].filter(([, own]) => sampling.schedulers.includes(own))
    : [];
  return [[OWN_NAMES.schedule, "automatic"] as const, ...others].map(([label, name]) => ({
    name,
    label,
    aliases: null,
    default_rho: -1,
    need_inner_model: false,
  }));
}

/** Reads a name of a sampler or a schedule; one that the model does not take is noted. */
export function knownName<T, M extends { readonly value?: T }>(
  field: string,
  name: string | null | undefined,
  read: (name: string) => M | undefined,
  taken: readonly T[],
  ignored: string[],
): M | undefined {
  const meaning = name ? read(name) : undefined;
  const isTaken = meaning && (meaning.value === undefined || taken.includes(meaning.value));
  if (name && !isTaken) ignored.push(field);
  return isTaken ? meaning : undefined;
}
