/**
 * Typed reading of `scheduler_config.json`.
 *
 * @module
 */

/** A parsed `scheduler_config.json`. */
export type SchedulerConfig = Readonly<Record<string, unknown>>;

/**
 * A number of the configuration, or the reference's default where the key is absent.
 *
 * @throws {TypeError} if the value is not a finite number
 */
export function numberField(config: SchedulerConfig, key: string, fallback: number): number {
  const value = config[key] ?? fallback;
  if (typeof value !== "number" || !Number.isFinite(value)) {
    throw new TypeError(`Cannot read the scheduler's ${key}: ${describe(value)} is not a number`);
  }
  return value;
}

/**
 * A number that may be null or absent, which both mean none.
 *
 * @throws {TypeError} if the value is something else
 */
export function optionalNumberField(config: SchedulerConfig, key: string): number | undefined {
  const value = config[key];
  return value === undefined || value === null ? undefined : numberField(config, key, 0);
}

/**
 * A flag of the configuration, or the reference's default where the key is absent or null.
 *
 * @throws {TypeError} if the value is not true or false
 */
export function booleanField(config: SchedulerConfig, key: string, fallback: boolean): boolean {
  const value = config[key] ?? fallback;
  if (typeof value !== "boolean") {
    throw new TypeError(
      `Cannot read the scheduler's ${key}: ${describe(value)} is not true or false`,
    );
  }
  return value;
}

/**
 * One of a few words, or the reference's default where the key is absent.
 *
 * @throws {TypeError} if the value is none of them
 */
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
      `Cannot use the scheduler's ${key} ${describe(value)}: supported are ${choices.join(", ")}`,
    );
  }
  return choice;
}

/**
 * Refuses options of the reference that change the schedule and are not implemented.
 *
 * @throws {TypeError} if one of them is switched on
 */
export function refuseFields(config: SchedulerConfig, keys: readonly string[]): void {
  for (const key of keys) {
    const value = config[key];
    if (value !== undefined && value !== null && value !== false) {
      throw new TypeError(
        `Cannot use the scheduler's ${key} ${describe(value)}: it is not supported; ` +
          `remove it from scheduler_config.json to run without`,
      );
    }
  }
}

function describe(value: unknown): string {
  return JSON.stringify(value) ?? String(value);
}
