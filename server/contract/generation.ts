/** What every generation request says, checked: prompt, steps, guidance, seeds, quality. */

import type { ModelInfo, QualityTier, RoomRequest, SamplingSettings } from "../../engine/types.ts";
import { httpNames, resolveSeeds, snakeCase } from "../../generation/field_values.ts";
import type { NamedLora } from "../../generation/distilled_loras.ts";
import { type FitMode, FITS, SETTING_FIELDS, SETTING_NAMES } from "../../generation/fields.ts";
import type { AskedText, Idle } from "../../generation/prepare.ts";
import { FieldError } from "../../generation/settings.ts";
import { asClientError, checkChoice } from "./validate.ts";
import { badRequest } from "./errors.ts";
import type { JobLora } from "./lora_requests.ts";
import { type FieldTable, ignoredFields, refuseField } from "./fields.ts";
import type { LoraItem } from "./generation_fields.ts";
import { QUALITY_PRESETS, resolveQuality } from "../../media/encode.ts";
import { parseSize } from "../../generation/size.ts";

export interface RequestContext {
  readonly info: ModelInfo;
  readonly servedModelName: string;
  readonly strictFields: boolean;
  readonly canEnhance: boolean;
  /** Seed of a request that names none; a new one is drawn where there is no such seed. */
  readonly defaultSeed: number | undefined;
  /** Checks the address of a webhook; none may be asked for by default. */
  readonly readWebhook?: (url: string) => string;
  /** Whether results are kept, so that a link can lead to them. */
  readonly persistent: boolean;
  /** Whether the answer is the job, whose events tell of previews. */
  readonly respondsAsync?: boolean;
  /** The LoRAs that a request names, else those that are set. */
  readonly findLoras: (items: readonly LoraItem[] | null | undefined) => Promise<JobLora[]>;
  /** The same as far as names tell, before any is looked for. */
  readonly nameLoras: (items: readonly LoraItem[] | null | undefined) => readonly NamedLora[];
  /** Refuses with a `RangeError` what the model cannot make on this machine. */
  readonly checkRoom: (request: RoomRequest) => Promise<void>;
}

/** What a request says beside what the engine is told. */
export interface RequestOptions {
  seeds: number[];
  enhancePrompt: boolean;
  /** LoRAs in the order in which they are applied. */
  loras: JobLora[];
  /** Address that is told of the job's end. */
  webhookUrl?: string;
  /** Whether others go first; as anyone's by default. */
  serviceTier?: "flex";
}

/** The fields that {@link readGeneration} reads beside those of the settings. */
interface GenerationBody {
  readonly prompt: string;
  readonly n?: number | null | undefined;
  readonly size?: string | null | undefined;
  readonly width?: number | null | undefined;
  readonly height?: number | null | undefined;
  readonly task_type?: string | null | undefined;
  readonly fit?: string | null | undefined;
  readonly seed?: number | number[] | null | undefined;
  readonly generator_device?: string | null | undefined;
  readonly quality?: string | null | undefined;
  readonly enhance_prompt?: boolean | null | undefined;
  readonly wildcards?: boolean | null | undefined;
  readonly webhook_url?: string | null | undefined;
  readonly service_tier?: string | null | undefined;
  readonly [field: string]: unknown;
}

/** What {@link readGeneration} found. */
interface ReadGeneration {
  /** For the preparation, which checks it. */
  readonly asked: AskedText;
  /** Checked; LoRAs are looked for when all else is right. */
  readonly options: Omit<RequestOptions, "loras">;
  /** What messages call a setting. */
  readonly spell: (name: keyof SamplingSettings) => string;
  /** The field of the request that a field of the preparation came in. */
  readonly paramOf: (field: string) => string;
}

/** The tiers by the names that requests have for them; `extra-high` is the former name of `lossless`. */
const TIERS: Readonly<Record<string, QualityTier>> = {
  auto: "lossless",
  exact: "exact",
  lossless: "lossless",
  high: "high",
  "extra-high": "lossless",
};

/** Qualities of the generic API that say nothing of a tier; they mean `auto`. */
const GENERIC_QUALITIES: readonly string[] = ["standard", "hd", "low", "medium"];

/** What `quality` may say over HTTP. */
export const QUALITIES: readonly string[] = [...Object.keys(TIERS), ...GENERIC_QUALITIES];
export const MAX_OUTPUTS = 10;
export const DEVICES: readonly string[] = ["cuda", "cpu", "musa"];
export const SERVICE_TIERS: readonly string[] = ["auto", "default", "flex"];

export function readGeneration(
  fields: GenerationBody,
  { canEnhance, defaultSeed, readWebhook }: RequestContext,
): ReadGeneration {
  const names = settingNames(fields);
  const given = Object.fromEntries([...names].map(([name, http]) => [name, fields[http]]));
  checkChoice("generator_device", fields.generator_device, DEVICES);
  checkChoice("service_tier", fields.service_tier, SERVICE_TIERS);
  checkChoice("fit", fields.fit, FITS);
  if (fields.enhance_prompt === true && !canEnhance) {
    throw badRequest("Prompt enhancement requires --prompt-enhancer-config", "enhance_prompt");
  }
  if (fields.enhance_prompt === true && fields.wildcards === true) {
    throw badRequest(
      "Cannot use wildcards with enhance_prompt: the prompt is rewritten once for all results; omit one",
      "wildcards",
    );
  }
  const n = fields.n ?? 1;
  if (n < 1 || n > MAX_OUTPUTS) {
    throw badRequest(`n must be between 1 and ${MAX_OUTPUTS}, got ${n}`, "n");
  }
  if (fields.webhook_url && !readWebhook) {
    throw badRequest(
      "Cannot use webhook_url: this server signs no webhooks; start it with DENOISE_WEBHOOK_SECRET",
      "webhook_url",
    );
  }
  const spell = (name: keyof SamplingSettings) =>
    names.get(name) ?? httpNames(name, SETTING_FIELDS[name])[0]!;
  const sizeParam = fields.width ? "width" : fields.height ? "height" : "size";
  return {
    asked: {
      prompt: fields.prompt,
      wildcards: fields.wildcards,
      given: { ...given, quality: readQuality(fields.quality) },
      taskType: fields.task_type,
      ...readSize(fields),
      fit: (fields.fit || undefined) as FitMode | undefined,
    },
    options: {
      seeds: asClientError("seed", () => resolveSeeds(fields.seed, n, defaultSeed)),
      enhancePrompt: fields.enhance_prompt === true,
      ...(fields.service_tier === "flex" ? { serviceTier: "flex" as const } : {}),
      ...(fields.webhook_url && readWebhook ? { webhookUrl: readWebhook(fields.webhook_url) } : {}),
    },
    spell,
    paramOf: (field) => {
      if (field === "size") return sizeParam;
      if (field === "references") return "reference";
      if (field === "referenceMasks") return "reference_mask";
      return field in SETTING_FIELDS ? spell(field as keyof SamplingSettings) : snakeCase(field);
    },
  };
}

/** @throws {ApiError} 400 in place of a `FieldError` */
export async function prepared<T extends { request: SamplingSettings; idle: Idle }>(
  prepare: () => Promise<T>,
  paramOf: (field: string) => string,
): Promise<{ ready: T; idle: Record<string, boolean> }> {
  try {
    const ready = await prepare();
    const idle = Object.fromEntries([...ready.idle.keys()].map((name) => [paramOf(name), true]));
    return { ready, idle: { ...idle, negative_prompt: ready.request.guidanceScale === 0 } };
  } catch (error) {
    if (!(error instanceof FieldError)) throw error;
    throw badRequest(error.message, paramOf(error.field));
  }
}

/** Under which of its names each setting came, of those that did. */
function settingNames(fields: GenerationBody): Map<keyof SamplingSettings, string> {
  const names = new Map<keyof SamplingSettings, string>();
  for (const name of SETTING_NAMES) {
    const given = httpNames(name, SETTING_FIELDS[name])
      .find((http) => fields[http] !== undefined && fields[http] !== null);
    if (given !== undefined) names.set(name, given);
  }
  return names;
}

function readQuality(quality: string | null | undefined): QualityTier {
  if (!quality || GENERIC_QUALITIES.includes(quality)) return TIERS["auto"]!;
  checkChoice("quality", quality, Object.keys(TIERS));
  return TIERS[quality]!;
}

/** How well results are kept, 0 (smallest) to 100 (best); `media` says which default counts. */
export function readOutputQuality(
  { output_quality: preset, output_compression: compression }: {
    readonly output_quality?: string | null | undefined;
    readonly output_compression?: number | null | undefined;
  },
  media: "image" | "video",
): number {
  checkChoice("output_quality", preset || undefined, QUALITY_PRESETS);
  return asClientError("output_compression", () => resolveQuality(preset, compression, media));
}

/** Fields over which another one wins that says the same. */
function losers(fields: Readonly<Record<string, unknown>>): Record<string, boolean> {
  const isGiven = (name: string) => ![undefined, null, ""].includes(fields[name] as string);
  return {
    seconds: isGiven("num_frames"),
    n: isGiven("num_outputs_per_prompt") && fields["n"] !== fields["num_outputs_per_prompt"],
    size: isGiven("width") && isGiven("height"),
  };
}

/** The fields that {@link findIgnored} looks at itself. */
interface AnyFields {
  model?: string | null | undefined;
  generator_device?: string | null | undefined;
  quality?: string | null | undefined;
}

/** Fields that change nothing; `idle` says it of those that may. @throws {ApiError} 400 for the first, where the server is strict */
export function findIgnored(
  fields: Readonly<Record<string, unknown>> & AnyFields,
  table: FieldTable,
  context: RequestContext,
  idle: Readonly<Record<string, boolean>>,
): string[] {
  const { model, quality, generator_device: device } = fields;
  const ignored = ignoredFields(fields, table);
  const conditions: Readonly<Record<string, boolean>> = {
    ...losers(fields),
    model: model !== "" && model !== context.servedModelName,
    // The initial noise is that of PyTorch's CPU generator, whatever the device.
    generator_device: device !== "" && device !== "cpu",
    quality: GENERIC_QUALITIES.includes(quality ?? ""),
    ...idle,
  };
  for (const [name, isIdle] of Object.entries(conditions)) {
    const isAbsent = fields[name] === undefined || fields[name] === null;
    if (isIdle && !isAbsent && !ignored.includes(name)) ignored.push(name);
  }
  const [first] = ignored;
  if (context.strictFields && first !== undefined) refuseField(first, table);
  return ignored;
}

/** Reads `size`, and the sides that override it. */
function readSize(
  { size, width, height }: GenerationBody,
): Pick<AskedText, "width" | "height"> {
  const named = size && size !== "auto" ? asClientError("size", () => parseSize(size)) : undefined;
  return { width: width ?? named?.width, height: height ?? named?.height };
}
