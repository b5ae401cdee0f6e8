/** One line at the bottom of a terminal that tells how far the work is. */

import { escapeControls } from "../generation/texts.ts";
import type { LoadModelOptions, Progress } from "../mod.ts";

const WIDTH = 24;

/** Milliseconds between lines about a download where no bar can be drawn. */
const LINES_EVERY = 15_000;

interface ProgressTerminal {
  /** Whether lines can be drawn over; nothing is drawn otherwise, but for lines now and then where they are wanted. */
  readonly isTerminal: boolean;
  /** Cells of a row; any number where it gives none. */
  readonly columns?: () => number | undefined;
  write(text: string): void;
}

/** A bar that is drawn over itself, on a terminal only. */
export class ProgressBar {
  readonly #terminal: ProgressTerminal;
  readonly #linesEvery: number;
  #lineAt = performance.now();
  #shown = "";

  /** Without a terminal, a line is written every `linesEvery` milliseconds. */
  constructor(terminal: ProgressTerminal = standardError(), linesEvery = Infinity) {
    this.#terminal = terminal;
    this.#linesEvery = linesEvery;
  }

  /** A bar of what takes minutes, of which logs have lines, too. */
  static ofLongWork(terminal?: ProgressTerminal): ProgressBar {
    return new ProgressBar(terminal, LINES_EVERY);
  }

  get isDrawn(): boolean {
    return this.#terminal.isTerminal;
  }

  /** Shows a share of some work, 0 to 1, with words before and after the bar. */
  show(fraction: number, before: string, after = ""): void {
    if (!this.#terminal.isTerminal) return this.#writeLine(fraction, before, after);
    // A line that wraps could not be drawn over.
    const room = (this.#terminal.columns?.() ?? Infinity) - 1;
    const cells = Math.max(0, Math.min(WIDTH, room - before.length - after.length - 2));
    const parts = [before, bar(fraction, cells), after].filter((part) => part !== "");
    const line = escapeControls(parts.join(" ")).slice(0, Math.max(0, room));
    if (line === this.#shown) return;
    this.#shown = line;
    this.#terminal.write(`\r\x1b[K${line}`);
  }

  #writeLine(fraction: number, before: string, after: string): void {
    const now = performance.now();
    if (now - this.#lineAt < this.#linesEvery) return;
    this.#lineAt = now;
    const percent = `${Math.floor(100 * fraction)} %`;
    this.#terminal.write(`${escapeControls([before, percent, after].join(" ").trim())}\n`);
  }

  clear(): void {
    if (this.#shown === "") return;
    this.#shown = "";
    this.#terminal.write("\r\x1b[K");
  }
}

/** What a bar of its own is called while a model is brought in. */
const LOADING: Readonly<Record<string, string>> = {
  download: "Fetching",
  tuning: "Choosing kernels",
};

/** Shows how far the loading of a model is. Weights come in while kernels are compiled: one bar tells of both. */
export function loadingBar(bar: ProgressBar): NonNullable<LoadModelOptions["onLoadProgress"]> {
  const shares = new Map<string, number>();
  const downloads = bar.isDrawn ? bar : ProgressBar.ofLongWork();
  let kernels = "";
  return ({ stage, fraction, done, total }) => {
    const own = LOADING[stage];
    if (own) return (stage === "download" ? downloads : bar).show(fraction, own);
    shares.set(stage, fraction);
    if (stage === "kernels") kernels = fraction < 1 ? describeKernels(done, total) : "";
    const sum = [...shares.values()].reduce((sum, share) => sum + share, 0);
    bar.show(sum / shares.size, "Loading", kernels);
  };
}

/** The words behind the bar, such as `12/20 steps, 3 s left`. */
export function describeProgress(progress: Progress): string {
  const { stage, step, totalSteps, etaSeconds } = progress;
  const what = stage === "denoise"
    ? `${step}/${totalSteps} steps`
    : stage === "compile"
    ? describeKernels(step, totalSteps)
    : STAGES[stage];
  return etaSeconds === undefined ? what : `${what}, ${duration(etaSeconds)} left`;
}

function describeKernels(done = 0, total = 0): string {
  return `compiling kernels ${done}/${total}`;
}

/** A length of time for people, such as `0.8 s`, `12 s`, `3 min 20 s` or `2 h 5 min`. */
export function duration(seconds: number): string {
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor(whole % 3600 / 60)} min`;
}

const STAGES = {
  load: "loading the model",
  encode: "reading the prompt",
  decode: "decoding",
} as const;

function bar(fraction: number, cells: number): string {
  const filled = Math.round(Math.min(1, Math.max(0, fraction)) * cells);
  return "█".repeat(filled) + "░".repeat(cells - filled);
}

function standardError(): ProgressTerminal {
  const encoder = new TextEncoder();
  return {
    isTerminal: Deno.stderr.isTerminal(),
    columns: terminalColumns,
    write: (text) => void Deno.stderr.writeSync(encoder.encode(text)),
  };
}

/** Cells of a row of the terminal; undefined where there is none, or it does not tell. */
export function terminalColumns(): number | undefined {
  try {
    return Deno.consoleSize().columns || undefined;
  } catch {
    return undefined;
  }
}
