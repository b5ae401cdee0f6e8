/** What Stable Diffusion WebUI and ComfyUI call samplers and schedules. */

import type { NoiseScheduleName, SamplerName } from "../engine/types.ts";

/** Samplers by its names for them. */
export const WEBUI_SAMPLERS: ReadonlyMap<string, SamplerName> = new Map([
  ["Euler", "euler"],
  ["Euler a", "euler_ancestral"],
  ["Heun", "heun"],
  ["DPM++ 2M", "dpmpp_2m"],
  ["UniPC", "uni_pc"],
  ["LCM", "lcm"],
]);

/** Schedules by its labels for them. */
export const WEBUI_SCHEDULES: ReadonlyMap<string, NoiseScheduleName> = new Map([
  ["Simple", "simple"],
  ["SGM Uniform", "sgm_uniform"],
  ["Karras", "karras"],
  ["Exponential", "exponential"],
  ["Beta", "beta"],
]);

/** Stands for what the model has itself. */
export const OWN_NAMES = { sampler: "Default", schedule: "Automatic" } as const;

/** What a name means; nothing where it is not known here. */
interface Meaning<T> {
  /** Omitted if it is the model's own. */
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
  if (isSame(text, OWN_NAMES.sampler) || isSame(text, OWN_NAMES.schedule)) return {};
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
  if (isSame(text, OWN_NAMES.schedule)) return {};
  const value = find(WEBUI_SCHEDULES, text);
  return value && { value };
}

/**
 * What WebUI calls a sampler or a schedule.
 *
 * @returns its name, or ours where it has none; nothing for nothing
 */
export function nameOf<T>(names: ReadonlyMap<string, T>, value: T | undefined): string | undefined {
  if (value === undefined) return undefined;
  for (const [name, own] of names) if (own === value) return name;
  return String(value);
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
