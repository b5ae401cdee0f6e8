/** What diffusers' Wan pipelines do to a prompt before tokenizing it. */

import { fixText } from "../ftfy/mod.ts";
import { unescapeHtml } from "../ftfy/html_entities.ts";

// What Python counts as white space: Unicode's, and the four separators of ASCII.
// deno-lint-ignore no-control-regex
const WHITESPACE = /[\p{White_Space}\x1c-\x1f]+/gu;

/**
 * Repairs damaged text, resolves HTML character references twice, makes one space of every run of
 * white space and takes it off both ends.
 *
 * The reference repairs text only where the Python package `ftfy` is installed; the limits of the
 * repair here are those of {@link fixText}.
 */
export function cleanPrompt(prompt: string): string {
  const text = unescapeHtml(unescapeHtml(fixText(prompt)));
  return text.replace(WHITESPACE, " ").replace(/^ | $/g, "");
}
