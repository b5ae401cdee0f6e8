/** All that commands say; control characters in foreign texts are written as escapes. */

import { escapeControls } from "../generation/texts.ts";
import type { Recipe } from "../mod.ts";

export function print(text: string): void {
  console.log(visible(text));
}

/** Writes a file's bytes to standard output. */
export function writeStandardOutput(bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
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

/** Rows of texts in columns; each text stays in its own cell. */
export function columns(texts: readonly (readonly string[])[]): string {
  const rows = texts.map((row) => row.map(escapeControls));
  const widths = rows[0]?.map((_, i) => Math.max(...rows.map((row) => row[i]!.length))) ?? [];
  return rows
    .map((row) => row.map((cell, i) => cell.padEnd(widths[i]!)).join("  ").trimEnd())
    .join("\n");
}

/** A size in words, such as `1024x1024 (drawn at 96x96)`. */
export function describeSize(
  { width, height, drawnAt }: Pick<Recipe, "width" | "height" | "drawnAt">,
): string {
  const drawn = drawnAt ? ` (drawn at ${drawnAt.width}x${drawnAt.height})` : "";
  return `${width}x${height}${drawn}`;
}

/** A size for people, such as `12.3 GB` or `0.4 MB`. */
export function gigabytes(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
