/** Figures of the benches and their history: one JSON object per line, oldest first. */

import { z } from "zod";
import type { Device } from "../../runtime/mod.ts";
import { ROOT } from "../root.ts";

const HISTORY = new URL("bench/history.jsonl", ROOT);

const BENCH_RUN = z.object({
  date: z.iso.datetime(),
  /** Abbreviated, with `+` when the tree had changes; null outside of a repository. */
  commit: z.string().nullable(),
  device: z.object({ adapter: z.string(), isSoftware: z.boolean(), cores: z.number() }),
  /** One-minute load of the machine before the run: whether something else was at work. */
  load: z.number(),
  results: z.record(z.string(), z.object({ value: z.number(), unit: z.string() })),
});

/** One run of the benches, of some groups or of all. */
export type BenchRun = z.output<typeof BENCH_RUN>;

/** Measured values by name, such as `image 64x64 best`. Units that end in `/s` are rates, of which more is better. */
export type Figures = BenchRun["results"];

export async function beginRun({ adapter }: Device): Promise<Omit<BenchRun, "results">> {
  const commit = await git("rev-parse", "--short", "HEAD");
  const isClean = await git("status", "--porcelain") === "";
  return {
    date: new Date().toISOString(),
    commit: commit === undefined ? null : commit + (isClean ? "" : "+"),
    device: {
      adapter: adapter.name,
      isSoftware: adapter.isSoftware,
      cores: navigator.hardwareConcurrency,
    },
    load: Number((Deno.loadavg()[0] ?? 0).toFixed(2)),
  };
}

/** Reads the history file; one that is not there is empty. */
export function readHistory(): BenchRun[] {
  try {
    return parseHistory(Deno.readTextFileSync(HISTORY));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

export function parseHistory(text: string): BenchRun[] {
  return text.split("\n").flatMap((line, index) => {
    if (line.trim() === "") return [];
    try {
      return [BENCH_RUN.parse(JSON.parse(line))];
    } catch (cause) {
      throw new SyntaxError(`Cannot read line ${index + 1} of the history: it is not a run`, {
        cause,
      });
    }
  });
}

export async function saveRun(run: BenchRun): Promise<void> {
  await Deno.writeTextFile(HISTORY, historyLine(run), { append: true });
}

/** The line of a run, with its end; values have four digits. */
export function historyLine(run: BenchRun): string {
  const results = Object.fromEntries(
    Object.entries(run.results).map(([name, { value, unit }]) => [
      name,
      { value: Number(value.toPrecision(4)), unit },
    ]),
  );
  return `${JSON.stringify({ ...run, results })}\n`;
}

/** The newest value of every figure on a device: runs need not measure everything. */
export function latestFigures(
  runs: readonly BenchRun[],
  { adapter, cores }: BenchRun["device"],
): Figures {
  const same = runs.filter(({ device }) => device.adapter === adapter && device.cores === cores);
  return Object.assign({}, ...same.map(({ results }) => results));
}

/** Lines: name, value and the ratio to an earlier value, above 1 where it got better. */
export function comparisonTable(after: Figures, before: Figures = {}): string[] {
  return alignColumns(
    Object.entries(after).map(([name, figure]) => {
      const old = before[name];
      const ratio = old && improvement(old, figure);
      return [
        name,
        formatFigure(figure),
        old ? `was ${formatFigure(old)}${ratio ? `, x${ratio.toFixed(2)}` : ""}` : "",
      ];
    }),
    [1],
  );
}

/** The middle value, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return (sorted[Math.floor(middle)]! + sorted[Math.ceil(middle)]!) / 2;
}

/** Pads the cells of a table, two spaces between columns; columns `right` stand to the right. */
export function alignColumns(
  rows: readonly (readonly string[])[],
  right: readonly number[],
): string[] {
  const widths = rows[0]?.map((_, i) => Math.max(...rows.map((row) => row[i]!.length))) ?? [];
  return rows.map((row) =>
    row.map((cell, i) => right.includes(i) ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!))
      .join("  ").trimEnd()
  );
}

/** A figure for people: three significant digits and the unit. */
export function formatFigure({ value, unit }: Figures[string]): string {
  const digits = Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3);
  return `${digits} ${unit}`;
}

/** 2 where `after` is twice as fast, or half the bytes; undefined where the two cannot be compared. */
export function improvement(
  before: Figures[string],
  after: Figures[string],
): number | undefined {
  if (before.unit !== after.unit) return undefined;
  const isRate = after.unit.endsWith("/s");
  const ratio = isRate ? after.value / before.value : before.value / after.value;
  return Number.isFinite(ratio) && ratio > 0 ? ratio : undefined;
}

/** Standard output of git, trimmed; undefined when it fails or is not there. */
export async function git(...args: string[]): Promise<string | undefined> {
  try {
    const command = new Deno.Command("git", { args, cwd: ROOT, stderr: "null" });
    const { success, stdout } = await command.output();
    return success ? new TextDecoder().decode(stdout).trim() : undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
