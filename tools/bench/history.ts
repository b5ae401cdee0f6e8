/** The history of benches: one JSON object per line, oldest first. */

import { type Figures, formatFigure, improvement, TARGETS } from "./figures.ts";

/** The machine that a run was made on. */
export interface BenchDevice {
  /** The adapter as the driver names it. */
  readonly adapter: string;
  readonly isSoftware: boolean;
  /** Logical processors. */
  readonly cores: number;
}

/** One run of the benches, of some groups or of all. */
export interface BenchRun {
  /** ISO 8601, UTC. */
  readonly date: string;
  /** Abbreviated commit with `+` when the tree had changes; null outside of a repository. */
  readonly commit: string | null;
  readonly device: BenchDevice;
  /** One-minute load of the machine before the run: whether something else was at work. */
  readonly load: number;
  readonly results: Figures;
}

/** Where the history lies. */
export const HISTORY: URL = new URL("../../bench/history.jsonl", import.meta.url);

/**
 * Reads the history file; one that is not there is empty.
 *
 * @throws {SyntaxError} naming the line that is not a run
 */
export function readHistory(): BenchRun[] {
  try {
    return parseHistory(Deno.readTextFileSync(HISTORY));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/**
 * Reads a history.
 *
 * @throws {SyntaxError} naming the line that is not a run
 */
export function parseHistory(text: string): BenchRun[] {
  return text.split("\n").flatMap((line, index) => {
    if (line.trim() === "") return [];
    let run: unknown;
    try {
      run = JSON.parse(line);
    } catch (cause) {
      throw new SyntaxError(`Cannot read line ${index + 1} of the history: it is not JSON`, {
        cause,
      });
    }
    if (isRun(run)) return [run];
    throw new SyntaxError(`Cannot read line ${index + 1} of the history: it is not a run`);
  });
}

/** The line that is appended for a run, with its end. */
export function historyLine(run: BenchRun): string {
  const results = Object.fromEntries(
    Object.entries(run.results).map(([name, { value, unit }]) => [
      name,
      { value: Number(value.toPrecision(4)), unit },
    ]),
  );
  return `${JSON.stringify({ ...run, results })}\n`;
}

/** What makes two runs comparable. */
export function deviceKey({ adapter, cores }: BenchDevice): string {
  return `${adapter}, ${cores} ${cores === 1 ? "core" : "cores"}`;
}

/** The newest value of every figure on a device: runs need not measure everything. */
export function latestFigures(runs: readonly BenchRun[], device: BenchDevice): Figures {
  const same = runs.filter((run) => deviceKey(run.device) === deviceKey(device));
  return Object.assign({}, ...same.map(({ results }) => results));
}

/**
 * A table of figures, with targets and with ratios to earlier figures where there are any.
 *
 * @returns lines: name, value, ratio (above 1 is better), target
 */
export function comparisonTable(after: Figures, before: Figures = {}): string[] {
  const rows = Object.entries(after).map(([name, figure]) => {
    const old = before[name];
    const ratio = old && improvement(old, figure);
    const target = TARGETS.find((each) => each.name === name);
    const met = target && (figure.value < target.below ? "met" : "MISSED");
    return [
      name,
      formatFigure(figure),
      old ? `was ${formatFigure(old)}${ratio ? `, x${ratio.toFixed(2)}` : ""}` : "",
      target ? `${met} (< ${target.below} ${figure.unit})` : "",
    ];
  });
  const width = [0, 1, 2].map((i) => Math.max(0, ...rows.map((row) => row[i]!.length)));
  return rows.map(([name, value, ratio, target]) =>
    [
      name!.padEnd(width[0]!),
      value!.padStart(width[1]!),
      ratio!.padEnd(width[2]!),
      target!,
    ].join("  ").trimEnd()
  );
}

function isRun(value: unknown): value is BenchRun {
  if (typeof value !== "object" || value === null) return false;
  const { date, commit, device, load, results } = value as Record<string, unknown>;
  if (typeof date !== "string" || Number.isNaN(Date.parse(date))) return false;
  if (commit !== null && typeof commit !== "string") return false;
  if (typeof load !== "number") return false;
  if (typeof device !== "object" || device === null) return false;
  const { adapter, isSoftware, cores } = device as Record<string, unknown>;
  if (typeof adapter !== "string" || typeof isSoftware !== "boolean") return false;
  if (typeof cores !== "number" || typeof results !== "object" || results === null) return false;
  return Object.values(results).every((figure) =>
    typeof figure?.value === "number" && typeof figure?.unit === "string"
  );
}
