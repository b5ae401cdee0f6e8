/** What a row of the table of fields says; see `fields.ts`. */
import type { ModelInfo, SamplingSettings, TaskType } from "../engine/types.ts";
import type { OutputType } from "./task.ts";

type FieldKind = "text" | "integer" | "number" | "integers" | "numbers" | "flag";

export interface Field {
  /** One sentence, without the full stop. */
  readonly text: string;
  /** Numbers are at least 0 on the command line, integers at least 1. */
  readonly kind: FieldKind;
  /** What a text may be, where it is one of a few. */
  readonly choices?: readonly string[];
  /** Names of the field over HTTP, where these are not its own with underscores; the first that is given wins. */
  readonly http?: readonly string[];
  /** The output that has it; every one by default. */
  readonly output?: OutputType;
  /** Name of its value in the help, such as `size` in `--max-size <size>` (default: its kind). */
  readonly placeholder?: string;
}

export type SettingLimits = Pick<
  ModelInfo,
  "maxSteps" | "maxSequenceLength" | "optionalParts" | "layers"
>;

export type GivenSettings = {
  readonly [Name in keyof SamplingSettings]?:
    | SamplingSettings[Name]
    | (SamplingSettings[Name] extends readonly number[] | undefined ? number : never)
    | null
    | undefined;
};

/** A row of a setting, which models may take or not. */
export interface SettingField<Value> extends Field {
  /** What a request gets that leaves it out. */
  readonly initial?: (info: ModelInfo, task: TaskType, given: GivenSettings) => Value | undefined;
  /** @throws {RangeError} that names the field by `name`; the value may not go with what else is given */
  readonly check: (
    value: Value,
    name: string,
    limits: SettingLimits,
    given: GivenSettings,
  ) => void;
  /** Why it changes nothing beside the others that are given, as a clause; nothing where it does. */
  readonly idle?: (
    info: ModelInfo,
    task: TaskType,
    given: Readonly<Partial<Record<keyof SamplingSettings, unknown>>>,
  ) => string | undefined;
  /** The least and the greatest value of a number, where there are such. */
  readonly bounds?: (limits: SettingLimits) => readonly [least: number, most: number];
  /** A value that asks for nothing, which nobody needs to be told of where it changes nothing. */
  readonly neutral?: Value;
}

/** The names of a field over HTTP; the first is the usual one. */
export function httpNames(name: string, { http }: Field): readonly string[] {
  return http ?? [snakeCase(name)];
}

/** `numFrames` as `num_frames`. */
export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
