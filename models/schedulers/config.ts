/** Typed reading of `scheduler_config.json`. */

import { excerpt } from "../../hub/json_file.ts";

/** Largest time shift, and its inverse the smallest; models use 1 to 12. */
export const MAX_SHIFT = 1000;

/** Most training timesteps; models use 1000. */
export const MAX_TRAIN_TIMESTEPS = 1_000_000;

export type SchedulerConfig = Readonly<Record<string, unknown>>;

/** A number of the configuration, or the reference's default where the key is absent. */
export function numberField(config: SchedulerConfig, key: string, fallback: number): number {
  const value = config[key] ?? fallback;
  if (typeof value !== "number" || !Number.isFinite(value)) {
    throw new TypeError(`Cannot read the scheduler's ${key}: ${excerpt(value)} is not a number`);
  }
  return value;
}

export function boundedField(
  config: SchedulerConfig,
  key: string,
  fallback: number,
  lowest: number,
  highest: number,
): number {
  const value = numberField(config, key, fallback);
  if (value >= lowest && value <= highest) return value;
  const range = lowest === highest ? `${lowest}` : `from ${lowest} to ${highest}`;
  throw new TypeError(`Cannot use the scheduler's ${key} ${value}: it must be ${range}`);
}

/** `shift_terminal`: the noise level that a schedule ends on before 0. The reference treats 0 as none. */
export function terminalField(config: SchedulerConfig): number | undefined {
  const value = numberField(config, "shift_terminal", 0) || undefined;
  if (value === undefined || value > 0 && value < 1) return value;
  throw new TypeError(
    `Cannot use the scheduler's shift_terminal ${value}: it must be from 0 to below 1`,
  );
}

export function booleanField(config: SchedulerConfig, key: string, fallback: boolean): boolean {
  const value = config[key] ?? fallback;
  if (typeof value !== "boolean") {
    throw new TypeError(
      `Cannot read the scheduler's ${key}: ${excerpt(value)} is not true or false`,
    );
  }
  return value;
}

export function choiceField<T extends string>(
  config: SchedulerConfig,
  key: string,
  choices: readonly T[],
  fallback: T,
): T {
  const value = config[key] ?? fallback;
  const choice = choices.find((candidate) => candidate === value);
  if (choice === undefined) {
    throw new TypeError(
      `Cannot use the scheduler's ${key} ${excerpt(value)}: supported are ${choices.join(", ")}`,
    );
  }
  return choice;
}

export function refuseFields(config: SchedulerConfig, keys: readonly string[]): void {
  for (const key of keys) {
    const value = config[key];
    if (value !== undefined && value !== null && value !== false) {
      throw new TypeError(
        `Cannot use the scheduler's ${key} ${excerpt(value)}: it is not supported; ` +
          `remove it from scheduler_config.json to run without`,
      );
    }
  }
}

/** Refuses a switch that does not have the only value supported. */
export function requireField(
  config: SchedulerConfig,
  key: string,
  needed: boolean,
  fallback: boolean,
): void {
  if (booleanField(config, key, fallback) === needed) return;
  throw new TypeError(`Cannot use the scheduler's ${key} ${!needed}: only ${needed} is supported`);
}
