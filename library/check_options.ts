/** What callers of the library gave of the wrong type: not all of them have a compiler that says so. */

import { checkChoice } from "../generation/field_values.ts";
import { checkKind } from "../generation/kinds.ts";
import { type Field, FieldError, FITS, REQUEST_FIELDS } from "../generation/mod.ts";
import { checked } from "../generation/settings.ts";
import type { GenerateOptions, GenerateVideoOptions } from "./options.ts";

type Given = { readonly [Name in keyof (GenerateOptions & GenerateVideoOptions)]?: unknown };

const { wildcards, width, height, taskType, fit, numFrames, seconds, fps } = REQUEST_FIELDS;

/** Fields that are no settings; these are checked with all others. */
const KINDS = {
  wildcards,
  width,
  height,
  taskType,
  fit,
  numFrames,
  seconds,
  // Rates of films are no integers.
  fps: { ...fps, kind: "number" },
  previews: { kind: "integer" },
  enableAudio: { kind: "flag" },
} as const satisfies Partial<Record<keyof Given, Pick<Field, "kind">>>;

const LISTS = ["images", "references", "referenceMasks", "loras"] as const;

/** @throws {FieldError} that names the first option of a wrong type */
export function checkOptions(options: Given): void {
  for (const [name, { kind }] of Object.entries(KINDS)) {
    const value = options[name as keyof typeof KINDS];
    if (value === undefined || value === null) continue;
    checked(name, () => checkKind(value, kind, name));
    if (kind !== "integer" || Number.isSafeInteger(value)) continue;
    throw new FieldError(name, `${name} must be an integer, got ${value}`);
  }
  for (const name of LISTS) {
    if (Array.isArray(options[name] ?? [])) continue;
    throw new FieldError(name, `${name} must be a list, got ${typeof options[name]}`);
  }
  if (options.fit === undefined || options.fit === null) return;
  checked("fit", () => checkChoice(options.fit, "fit", FITS));
}
