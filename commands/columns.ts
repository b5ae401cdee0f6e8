import { escapeControls } from "../generation/escape_controls.ts";

/** Rows of texts in columns; each text stays in its own cell. */
export function columns(texts: readonly (readonly string[])[]): string {
  const rows = texts.map((row) => row.map(escapeControls));
  const widths = rows[0]?.map((_, i) => Math.max(...rows.map((row) => row[i]!.length))) ?? [];
  return rows
    .map((row) => row.map((cell, i) => cell.padEnd(widths[i]!)).join("  ").trimEnd())
    .join("\n");
}
