/** Cells and tables of a report in Markdown, and its values with their units. */

/** What stands in a cell; nothing was measured where it is undefined. */
export type Cell = string | undefined;

/** What stands where nothing was measured. */
export const NOTHING = "–";

/** A text without line breaks, cut at 300 characters. */
export function oneLine(text: string): string {
  const line = text.replace(/\s+/g, " ").replaceAll("|", "\\|").trim();
  return line.length > 300 ? `${line.slice(0, 299)}…` : line;
}

export function details(title: string, content: string): string {
  return `<details><summary>${title}</summary>\n\n${content}\n\n</details>`;
}

/** A table whose columns `numbers` stand to the right. */
export function table(
  heads: readonly string[],
  rows: readonly (readonly Cell[])[],
  numbers: readonly number[],
): string {
  const line = (cells: readonly Cell[]) =>
    `| ${cells.map((cell) => cell ?? NOTHING).join(" | ")} |`;
  const rule = heads.map((_, i) => numbers.includes(i) ? "---:" : "---");
  return [line(heads), line(rule), ...rows.map(line)].join("\n");
}

/** Three digits. */
function digits(value: number): string {
  if (value >= 100) return value.toFixed(0);
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** A value in the largest of some units that leaves it above one. */
function scale(value: number, units: readonly string[], step = 1000): string {
  let at = 0;
  while (value >= step && at < units.length - 1) {
    value /= step;
    at++;
  }
  return `${digits(value)} ${units[at]}`;
}

/** A rate of arithmetic, in GFLOP/s and up. */
export function flops(value: number | undefined, unit = "FLOP/s"): Cell {
  return value === undefined ? undefined : scale(value / 1e9, [`G${unit}`, `T${unit}`, `P${unit}`]);
}

export function rate(bytesPerSecond: number | undefined): Cell {
  return bytesPerSecond === undefined
    ? undefined
    : scale(bytesPerSecond / 1e6, ["MB/s", "GB/s", "TB/s"]);
}

export function bytes(value: number): string {
  return scale(value, ["B", "KiB", "MiB", "GiB"], 1024).replace(/\.0+ /, " ");
}

/** Milliseconds, in the unit that suits. */
export function ms(value: number | undefined): Cell {
  if (value === undefined) return undefined;
  if (value < 1) return us(value * 1000);
  return value < 1000 ? `${digits(value)} ms` : `${digits(value / 1000)} s`;
}

export function us(value: number | undefined): Cell {
  if (value === undefined) return undefined;
  return value < 1000 ? `${digits(value)} µs` : ms(value / 1000);
}

export function percent(share: number | undefined): string {
  return share === undefined ? NOTHING : `${(100 * share).toFixed(0)} %`;
}
