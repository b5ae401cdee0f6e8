/**
 * LoRAs that were distilled for few steps, known by their names, and the settings that they are made for.
 * Source: the pages of LCM, TCD, SDXL-Lightning, Hyper-SD and DMD2 on the hub.
 */

import type { ModelInfo } from "../engine/types.ts";
import type { GivenSettings } from "./field_values.ts";

/** What requests get that do not say it themselves. */
export interface DistilledDefaults {
  readonly sampler: NonNullable<ModelInfo["defaults"]["sampler"]>;
  readonly scheduler?: NonNullable<ModelInfo["defaults"]["scheduler"]>;
  readonly numInferenceSteps: number;
  /** The model's own by default. */
  readonly guidanceScale?: number;
}

/** Names by a pattern whose group is the number of steps; `numInferenceSteps` holds without one. */
interface DistilledKind extends DistilledDefaults {
  readonly pattern: RegExp;
}

/** Below 1 and at 1 nothing is guided. */
const NO_GUIDANCE = 1;

/** Of several that fit, the first counts. */
const KINDS: readonly DistilledKind[] = [
  {
    pattern: /hyper[-_ ]?sd.{0,40}?(8|12)[-_ ]?steps?.{0,40}?cfg/i,
    sampler: "ddim",
    scheduler: "sgm_uniform",
    numInferenceSteps: 8,
  },
  {
    pattern: /hyper[-_ ]?sd.{0,40}?(?<!\d)(1)[-_ ]?steps?/i,
    sampler: "tcd",
    numInferenceSteps: 1,
    guidanceScale: NO_GUIDANCE,
  },
  {
    pattern: /hyper[-_ ]?sd.{0,40}?(?<!\d)([1-9]\d?)[-_ ]?steps?/i,
    sampler: "ddim",
    scheduler: "sgm_uniform",
    numInferenceSteps: 4,
    guidanceScale: NO_GUIDANCE,
  },
  {
    pattern: /lightning.{0,40}?(?<!\d)([1-9]\d?)[-_ ]?steps?/i,
    sampler: "euler",
    scheduler: "sgm_uniform",
    numInferenceSteps: 4,
    guidanceScale: NO_GUIDANCE,
  },
  {
    pattern: /dmd[-_ ]?2/i,
    sampler: "lcm",
    scheduler: "sgm_uniform",
    numInferenceSteps: 4,
    guidanceScale: NO_GUIDANCE,
  },
  {
    pattern: /(?:^|[^a-z])tcd(?:[^a-z]|$)/i,
    sampler: "tcd",
    numInferenceSteps: 4,
    guidanceScale: NO_GUIDANCE,
  },
  {
    pattern: /(?:^|[^a-z])lcm(?:[^a-z]|$)/i,
    sampler: "lcm",
    numInferenceSteps: 4,
    guidanceScale: NO_GUIDANCE,
  },
];

/** Files and folders whose names tell nothing. */
const GENERIC = /^(?:pytorch_lora_weights|adapter_model|snapshots|[0-9a-f]{40})(?:\.\w+)?$/;

/** Those of a model's kind: the samplers are of diffusion models. */
export function distilledKinds(
  { sampling }: Pick<ModelInfo, "sampling">,
): readonly DistilledKind[] {
  return sampling.samplers.includes("tcd") ? KINDS : [];
}

export interface NamedLora {
  /** A file, a name, or a hub id with or without a file. */
  readonly path: string;
  readonly strength?: number | undefined;
}

/** What the first distilled LoRA of a request asks for, and its name. */
export function distilledDefaults(
  loras: readonly NamedLora[],
  info: Pick<ModelInfo, "sampling">,
): { readonly name: string; readonly defaults: DistilledDefaults } | undefined {
  for (const { path, strength = 1 } of loras) {
    // The engine refuses a LoRA without a path.
    if (strength === 0 || typeof path !== "string") continue;
    const name = path.split(/[\\/:]/).findLast((part) => part !== "" && !GENERIC.test(part)) ?? "";
    for (const { pattern, ...defaults } of distilledKinds(info)) {
      const match = pattern.exec(name);
      if (!match) continue;
      const steps = Number(match[1] ?? defaults.numInferenceSteps);
      return { name, defaults: { ...defaults, numInferenceSteps: steps } };
    }
  }
  return undefined;
}

/** A model with the defaults that its LoRAs ask for. A sampler of the request comes without their schedule. */
export function withDistilled(
  info: ModelInfo,
  loras: readonly NamedLora[],
  { sampler: given }: Pick<GivenSettings, "sampler">,
): ModelInfo {
  const found = distilledDefaults(loras, info);
  if (!found) return info;
  const { sampler, scheduler, ...others } = found.defaults;
  const { scheduler: _, ...own } = info.defaults;
  const isOwn = given === undefined || given === null;
  const sampled = isOwn ? { ...own, sampler, ...(scheduler && { scheduler }) } : info.defaults;
  return { ...info, defaults: { ...sampled, ...others } };
}
