/** The settings of a request, completed from the model and checked. */

import type { ModelInfo, SamplingSettings, TaskType } from "../engine/types.ts";
import type { GivenSettings, SettingField, SettingLimits } from "./field_values.ts";
import { NOISE_SCHEDULES, SAMPLERS } from "../models/schedulers/names.ts";
import { SettingError } from "../models/setting_error.ts";
import { SETTING_FIELDS, SETTING_NAMES } from "./fields.ts";
import { checkKind, isListKind } from "./kinds.ts";

/** Limits that refuse nothing which some model takes. */
export const NO_LIMITS: SettingLimits = {
  maxSteps: Infinity,
  maxSequenceLength: Infinity,
  startsFromLatents: true,
  optionalParts: ["tinyDecoder", "controlnet", "upscaler", "frameInterpolator"],
  sampling: { samplers: SAMPLERS, schedulers: NOISE_SCHEDULES, maxSigma: Infinity },
};

/** A value that a request may not have. */
export class FieldError extends RangeError {
  /** The name of its row. */
  readonly field: string;

  /** Names the field. */
  constructor(field: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "FieldError";
    this.field = field;
  }
}

/** Settings that the model takes, and those that it does not. */
interface CompleteSettings {
  /** The settings of a request, with the model's own where nothing was given. */
  readonly settings: SamplingSettings;
  /** Why given ones change nothing, as a clause by name; they are omitted. */
  readonly idle: ReadonlyMap<keyof SamplingSettings, string>;
}

/** Checks and completes settings; messages call them as `spell` does. @throws {FieldError} for a value that the model does not take */
export function completeSettings(
  given: GivenSettings,
  task: TaskType,
  info: ModelInfo,
  spell: (name: keyof SamplingSettings) => string = (name) => name,
): CompleteSettings {
  const settings: Record<string, unknown> = {};
  const idle = new Map<keyof SamplingSettings, string>();
  for (const name of SETTING_NAMES) {
    const field = SETTING_FIELDS[name] as SettingField<unknown>;
    const asked = given[name] ?? field.initial?.(info, task, given);
    const isOne = typeof asked === "number" || typeof asked === "string";
    const value = isOne && isListKind(field.kind) ? [asked] : asked;
    if (value === undefined || value === null) continue;
    checked(name, () => checkKind(value, field.kind, spell(name)));
    // A flag that is not set is the same as an omitted one.
    if (value === false) continue;
    checked(name, () => field.check(value, spell(name), info, given));
    const why = field.idle?.(info, task, given);
    const isGiven = given[name] !== undefined && given[name] !== null;
    if (why === undefined) settings[name] = value;
    else if (isGiven && value !== field.neutral) idle.set(name, why);
  }
  return { settings: settings as unknown as SamplingSettings, idle };
}

/** The settings of a request, without everything else that it says. */
export function settingsOf(request: SamplingSettings): SamplingSettings {
  const settings: Record<string, unknown> = {};
  for (const name of SETTING_NAMES) {
    if (request[name] !== undefined) settings[name] = request[name];
  }
  return settings as unknown as SamplingSettings;
}

/** @throws {FieldError} in place of the `RangeError` of a bad value */
export function checked<T>(field: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    return refused(field)(error);
  }
}

/** Names the field that a `RangeError` is about, unless it does itself, with settings as `spell` writes them; throws what else it is given as it is. */
export function refused(
  field: string,
  spell?: (name: keyof SamplingSettings) => string,
): (error: unknown) => never {
  return (error) => {
    if (error instanceof FieldError || !(error instanceof RangeError)) throw error;
    const text = spell ? spellSettings(error.message, spell) : error.message;
    const own = error instanceof SettingError ? error.setting : field;
    throw new FieldError(own, text, { cause: error });
  };
}

/** Names that are no words of their own. */
const NAMES = new RegExp(
  `\\b(?:${SETTING_NAMES.filter((name) => /[A-Z]/.test(name)).join("|")})\\b`,
  "g",
);

/** Gives the settings in a sentence other names: `Cannot use guidanceScale NaN` may become `Cannot use --guidance-scale NaN`. */
export function spellSettings(
  text: string,
  spell: (name: keyof SamplingSettings) => string,
): string {
  return text.replace(NAMES, (name) => spell(name as keyof SamplingSettings));
}
