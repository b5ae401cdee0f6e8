/**
 * All that commands say. Texts of servers, files and clients may be in it, so control characters are written as
 * escapes.
 */

import { escapeControls } from "../generation/escape_controls.ts";

/** Writes lines of results to standard output. */
export function print(text: string): void {
  console.log(visible(text));
}

/** Writes lines for whoever looks on to standard error. Where they cannot be written, the work goes on. */
export function tell(text: string): void {
  try {
    console.error(visible(text));
  } catch {
    // Its disk is full, say, or nobody reads it any more.
  }
}

function visible(text: string): string {
  return text.split("\n").map(escapeControls).join("\n");
}
