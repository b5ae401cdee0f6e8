/** Settings in sentences of the library, which calls them by the names of their rows. */
import type { SamplingSettings } from "../engine/types.ts";
import { SETTING_NAMES } from "./fields.ts";

/** Names that are no words of their own. */
const NAMES = new RegExp(
  `\\b(?:${SETTING_NAMES.filter((name) => /[A-Z]/.test(name)).join("|")})\\b`,
  "g",
);

/**
 * Gives the settings in a sentence other names, where theirs are no words that may mean something else.
 *
 * @param text such as `Cannot use guidanceScale NaN`
 * @param spell gives the other name of a setting
 * @returns such as `Cannot use --guidance-scale NaN`
 */
export function spellSettings(
  text: string,
  spell: (name: keyof SamplingSettings) => string,
): string {
  return text.replace(NAMES, (name) => spell(name as keyof SamplingSettings));
}
