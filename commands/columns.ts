/**
 * Rows of texts in columns.
 *
 * @param rows as many cells each
 * @returns one line for each row
 */
export function columns(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]?.map((_, i) => Math.max(...rows.map((row) => row[i]!.length))) ?? [];
  return rows
    .map((row) => row.map((cell, i) => cell.padEnd(widths[i]!)).join("  ").trimEnd())
    .join("\n");
}
