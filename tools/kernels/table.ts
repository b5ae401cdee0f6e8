/** Tables of what a compiler says of kernels: printed, committed, and compared. */
import { alignColumns } from "../bench/history.ts";
import type { CompiledKernel } from "./compile.ts";
import type { Maker } from "./null_gpu.ts";

/** What a compiler says of a kernel. */
export interface Figures {
  /** Vector registers of an invocation; of Intel's, those of a wave that live at once. */
  readonly vgprs: number;
  /** Registers that are kept in memory for want of room, vector and scalar. */
  readonly spills: number;
  /** Bytes of memory of an invocation, for spills and for arrays that are indexed. */
  readonly scratch: number;
  /** Bytes of workgroup memory. */
  readonly lds: number;
  /** Waves that a SIMD holds at once, as the driver counts them; of Intel's, the invocations of a wave. */
  readonly waves: number;
  /** Bytes of code; of Intel's, instructions. */
  readonly code: number;
  /** The compiler's own estimate of clocks by throughput, with guessed numbers of turns of loops. */
  readonly cost: number;
}

const COLUMNS = ["vgprs", "spills", "scratch", "lds", "waves", "code", "cost"] as const;

/** A row of a table; of several kernels of one name, the worst of each figure. */
export interface Row {
  readonly name: string;
  readonly from: string;
  readonly isChosen: boolean;
  readonly kernel: string;
  readonly figures: Figures;
}

/** A committed table. */
export interface SavedTable {
  /** Name and version of the driver that compiled it. */
  readonly driver: string;
  readonly rows: ReadonlyMap<string, Figures>;
}

/** The names of figures in the drivers' statistics; 0 stands for a figure that a driver does not tell. */
const NAMES: Readonly<Record<Maker, Readonly<Record<keyof Figures, readonly string[]>>>> = {
  amd: {
    vgprs: ["VGPRs"],
    spills: ["Spilled VGPRs", "Spilled SGPRs"],
    scratch: ["Scratch size"],
    lds: ["LDS size"],
    waves: ["Subgroups per SIMD"],
    code: ["Code size"],
    cost: ["Inverse Throughput"],
  },
  intel: {
    vgprs: ["Max live registers"],
    spills: ["Spill Count"],
    scratch: ["Scratch Memory Size"],
    lds: ["Workgroup Memory Size"],
    waves: ["Max dispatch width"],
    code: ["Instruction Count"],
    cost: ["Cycle Count"],
  },
  nvidia: {
    vgprs: ["Number of GPRs"],
    spills: [],
    scratch: ["SLM Size"],
    lds: [],
    waves: [],
    code: ["Code Size"],
    cost: ["Instruction count"],
  },
};

/** Waves of NVIDIA's SIMDs, which have 512 registers for each of 32 lanes, given in eights. */
const wavesOf = (registers: number) =>
  Math.min(12, Math.floor(512 / (8 * Math.ceil(registers / 8))));

export function figuresOf({ statistics }: Pick<CompiledKernel, "statistics">): Figures {
  const names = NAMES[makerOf(statistics)];
  const entries = COLUMNS.map((column) => {
    const values = names[column].map((name) => {
      const found = statistics[name];
      if (found === undefined) throw new Error(`Cannot read statistics: there is no "${name}"`);
      return found;
    });
    return [column, values.reduce((sum, value) => sum + value, 0)];
  });
  const figures = Object.fromEntries(entries) as unknown as Figures;
  return names.waves.length > 0 ? figures : { ...figures, waves: wavesOf(figures.vgprs) };
}

function makerOf(statistics: CompiledKernel["statistics"]): Maker {
  if ("Number of GPRs" in statistics) return "nvidia";
  return "Max dispatch width" in statistics ? "intel" : "amd";
}

function worst(a: Figures, b: Figures): Figures {
  const pairs = COLUMNS.map((column) => {
    const pick = column === "waves" ? Math.min : Math.max;
    return [column, pick(a[column], b[column])];
  });
  return Object.fromEntries(pairs) as unknown as Figures;
}

/** A row for each name. */
export function rowsOf(kernels: readonly CompiledKernel[]): Row[] {
  const rows = new Map<string, Row>();
  for (const compiled of kernels) {
    const { name, from, isChosen, kernel } = compiled;
    const figures = figuresOf(compiled);
    const known = rows.get(name);
    rows.set(
      name,
      known
        ? { ...known, isChosen: isChosen || known.isChosen, figures: worst(known.figures, figures) }
        : { name, from, isChosen, kernel, figures },
    );
  }
  return [...rows.values()];
}

/** The rows with their figures in columns. */
export function printRows(rows: readonly Row[]): string {
  const head = ["chosen", "VGPRs", "spills", "scratch", "LDS", "waves", "code", "cost"];
  const cells = rows.map(({ name, from, isChosen, kernel, figures }) => [
    isChosen ? "yes" : "-",
    ...COLUMNS.map((column) => String(figures[column])),
    name.startsWith("case ") ? `${name} (${from})` : `${kernel}: ${name} (${from})`,
  ]);
  return alignColumns([[...head, "kernel"], ...cells], [...head.keys()]).join("\n");
}

/** The text of a committed table. */
export function writeTable(rows: readonly Row[], driver: string): string {
  const lines = rows.toSorted((a, b) => a.name < b.name ? -1 : 1).map(({ name, figures }) =>
    [...COLUMNS.map((column) => figures[column]), name].join("\t")
  );
  return [`# ${driver}`, [...COLUMNS, "name"].join("\t"), ...lines].join("\n") + "\n";
}

export function readTable(text: string): SavedTable {
  const [driver, , ...lines] = text.trimEnd().split("\n");
  const rows = lines.map((line): [string, Figures] => {
    const cells = line.split("\t");
    const figures = COLUMNS.map((column, i) => [column, Number(cells[i])]);
    return [cells[COLUMNS.length]!, Object.fromEntries(figures)];
  });
  return { driver: driver!.slice(2), rows: new Map(rows) };
}

/** How much more code and cost are worth a note. */
const MORE = { code: 1.1, cost: 1.05 };

/** How kernels differ from a committed table. */
export interface Comparison {
  /** New spills and scratch memory, and fewer waves, in words. */
  readonly failures: readonly string[];
  /** More code and cost, in words. */
  readonly notes: readonly string[];
  /** Rows for which no kernel is compiled. */
  readonly missing: readonly string[];
}

/** Compares kernels with a committed table, by the names of all problems that they are for. */
export function compare(saved: SavedTable, kernels: readonly CompiledKernel[]): Comparison {
  const all = kernels.flatMap((kernel) =>
    [kernel.name, ...kernel.others].map((name) => ({ ...kernel, name }))
  );
  const now = new Map(rowsOf(all).map(({ name, figures }) => [name, figures]));
  const failures: string[] = [];
  const notes: string[] = [];
  for (const [name, was] of saved.rows) {
    const is = now.get(name);
    if (!is) continue;
    const tell = (list: string[], columns: readonly (keyof Figures)[]) => {
      const changes = columns.map((column) => `${column} ${was[column]} to ${is[column]}`);
      if (changes.length > 0) list.push(`${name}: ${changes.join(", ")}`);
    };
    const spilled = (["spills", "scratch"] as const).filter((column) => is[column] > was[column]);
    tell(failures, is.waves < was.waves ? [...spilled, "waves"] : spilled);
    tell(notes, (["code", "cost"] as const).filter((key) => is[key] > was[key] * MORE[key]));
  }
  return { failures, notes, missing: [...saved.rows.keys()].filter((name) => !now.has(name)) };
}
