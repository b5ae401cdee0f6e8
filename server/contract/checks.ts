/**
 * How the checks of request fields turn into answers.
 *
 * @module
 */

import { badRequest } from "./errors.ts";
import { checkStrength } from "./sampling.ts";

/**
 * Runs a check and turns its refusal into a 400 that names the field.
 *
 * @param param the field
 * @param check throws a `RangeError` for a bad value
 * @returns what the check gives
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
 * @param name of the field
 * @param value as sent; nothing is always fine
 * @param choices what is allowed
 * @throws {ApiError} 400 that lists the choices
 */
export function checkChoice(
  name: string,
  value: string | null | undefined,
  choices: readonly string[],
): void {
  if (value === undefined || value === null || choices.includes(value)) return;
  const list = choices.map((choice) => `'${choice}'`).join(", ");
  throw badRequest(`${name} must be one of [${list}], got '${shorten(value)}'`, name);
}

/**
 * Reads how much of what is given is made anew.
 *
 * @param fields of a request
 * @returns nothing where it is not there
 * @throws {ApiError} 400 where it is out of range
 */
export function readStrength(
  { strength }: { readonly strength?: number | null | undefined },
): { strength?: number } {
  if (strength === undefined || strength === null) return {};
  asClientError("strength", () => checkStrength(strength));
  return { strength };
}

/**
 * Refuses fields in which the reference takes paths on the server.
 *
 * @param fields of a request
 * @param names of such fields
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

/**
 * What a client sent, short enough to be repeated.
 *
 * @param text of any length
 * @returns at most 60 characters and a sign that more was there
 */
export function shorten(text: string): string {
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
