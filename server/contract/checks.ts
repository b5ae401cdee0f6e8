/** How the checks of request fields turn into answers. */

import { shorten } from "../../generation/shorten.ts";
import { badRequest } from "./errors.ts";

/**
 * Runs a check and turns its refusal into a 400 that names the field.
 *
 * @param check throws a `RangeError` for a bad value
 * @throws {ApiError} 400
 */
export function asClientError<T>(param: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (error instanceof RangeError) throw badRequest(error.message, param);
    throw error;
  }
}

/**
 * Checks a value that is one of a few.
 *
 * @throws {ApiError} 400 that lists the choices
 */
export function checkChoice(
  name: string,
  value: string | null | undefined,
  choices: readonly string[],
): void {
  if (value === undefined || value === null || value === "" || choices.includes(value)) return;
  const list = choices.map((choice) => `'${choice}'`).join(", ");
  throw badRequest(`${name} must be one of [${list}], got '${shorten(value)}'`, name);
}

/**
 * Refuses fields in which the reference takes paths on the server.
 *
 * @throws {ApiError} 400 for the first that is there
 */
export function refusePaths(
  fields: Readonly<Record<string, unknown>>,
  names: readonly string[],
): void {
  for (const name of names) {
    if (fields[name] === undefined || fields[name] === null) continue;
    throw badRequest(`Cannot use ${name}: clients may not name paths on the server`, name);
  }
}
