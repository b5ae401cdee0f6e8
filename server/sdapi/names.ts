/**
 * What clients of Stable Diffusion WebUI may call samplers and schedules, and which of them a model has.
 *
 * @module
 */

import type { ModelInfo, NoiseScheduleName, SamplerName } from "../../engine/types.ts";
import { WEBUI_SAMPLERS, WEBUI_SCHEDULES } from "../../generation/webui.ts";

/** Stands for what the model has itself. */
const OWN = { sampler: "Default", schedule: "Automatic" } as const;

/** What a name means; nothing where it is not known here. */
interface Meaning<T> {
  /** Left out where it is the model's own. */
  readonly value?: T;
}

/** A sampler, and a schedule where its name has one, as WebUI's had once. */
type SamplerMeaning = Meaning<SamplerName> & { readonly scheduler?: NoiseScheduleName };

/**
 * What a sampler's name means.
 *
 * @param text such as `Euler a`, `euler_ancestral` or `DPM++ 2M Karras`
 * @returns its meaning; nothing for a name that is not known
 */
export function readSampler(text: string): SamplerMeaning | undefined {
  if (isSame(text, OWN.sampler) || isSame(text, OWN.schedule)) return {};
  const value = find(WEBUI_SAMPLERS, text);
  if (value) return { value };
  const [, before, last] = /^(.*\S)\s+(\S+)$/.exec(text.trim()) ?? [];
  const sampler = before && find(WEBUI_SAMPLERS, before);
  const scheduler = last && find(WEBUI_SCHEDULES, last);
  return sampler && scheduler ? { value: sampler, scheduler } : undefined;
}

/**
 * What a schedule's name means.
 *
 * @param text such as `Karras` or `sgm_uniform`
 * @returns its meaning; nothing for a name that is not known
 */
export function readSchedule(text: string): Meaning<NoiseScheduleName> | undefined {
  if (isSame(text, OWN.schedule)) return {};
  const value = find(WEBUI_SCHEDULES, text);
  return value && { value };
}

/**
 * The samplers of a model, for `GET /sdapi/v1/samplers`.
 *
 * @param info of the model
 * @returns a JSON value; the model's own is the first
 */
export function samplersOf({ optionalSettings }: ModelInfo): Record<string, unknown>[] {
  const others = optionalSettings.includes("sampler") ? [...WEBUI_SAMPLERS] : [];
  return [[OWN.sampler, "default"] as const, ...others].map(([name, own]) => ({
    name,
    aliases: [own],
    options: {},
  }));
}

/**
 * The schedules of a model, for `GET /sdapi/v1/schedulers`.
 *
 * @param info of the model
 * @returns a JSON value; the model's own is the first
 */
export function schedulesOf({ optionalSettings }: ModelInfo): Record<string, unknown>[] {
  const others = optionalSettings.includes("scheduler") ? [...WEBUI_SCHEDULES] : [];
  return [[OWN.schedule, "automatic"] as const, ...others].map(([label, name]) => ({
    ...{ name, label },
    aliases: null,
    default_rho: -1,
    need_inner_model: false,
  }));
}

function find<T extends string>(names: ReadonlyMap<string, T>, text: string): T | undefined {
  for (const [name, own] of names) if (isSame(text, name) || isSame(text, own)) return own;
  return undefined;
}

/** Names are told apart by letters, digits and `+`. */
function isSame(one: string, other: string): boolean {
  const plain = (text: string) => text.toLowerCase().replace(/[^a-z0-9+]/g, "");
  return plain(one) === plain(other);
}
