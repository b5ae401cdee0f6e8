/** What the tables of a report are made from: its sections by backend, and torch's times beside them. */
import { readText } from "../platform/mod.ts";
import { z } from "zod";
import type { GpuBackend } from "../runtime/mod.ts";
import { type Cell, flops, NOTHING, rate, table } from "./cells.ts";
import type {
  GpuReport,
  OpRow,
  PartRow,
  SectionData,
  SectionName,
  SectionResult,
} from "./types.ts";

/** What people call the WebGPU implementations. */
export const BACKEND_NAMES: Readonly<Record<GpuBackend, string>> = {
  deno: "Deno",
  dawn: "Dawn",
  browser: "browser",
};
/** Arithmetic operations per byte below which memory bounds an op, and its rate is one of bytes. */
const MEMORY_BOUND = 16;

/** A row of a table with a column for each backend. */
export type Row = [title: string, cell: (backend: GpuBackend) => Cell];

export class ReportReader {
  readonly report: GpuReport;
  readonly torch: TorchReport | undefined;
  /** Backends of which the report has data. */
  readonly backends: readonly GpuBackend[];

  constructor(report: GpuReport, torch?: TorchReport) {
    this.report = report;
    this.torch = torch;
    const withData = report.sections.filter(({ data }) => data !== undefined);
    this.backends = [...new Set(withData.map(({ backend }) => backend))];
  }

  /** What a section has found; nothing where it was not run. */
  data<Name extends SectionName>(
    name: Name,
    backend: GpuBackend,
  ): SectionData[Name] | undefined {
    const found = this.report.sections.find((section) =>
      section.name === name && section.backend === backend
    ) as SectionResult<Name> | undefined;
    return found?.data;
  }

  /** A table with a row for each title, and a column for each backend; rows without a cell are omitted. */
  byBackend(
    corner: string,
    rows: readonly Row[],
    areNumbers = true,
  ): string {
    const cells = rows.map(([title, cell]) => [
      title,
      ...this.backends.map((backend) => cell(backend) || NOTHING),
    ]).filter((row) => row.slice(1).some((cell) => cell !== NOTHING));
    const heads = this.backends.map((backend) => BACKEND_NAMES[backend]);
    return table([corner, ...heads], cells, areNumbers ? heads.map((_, i) => i + 1) : []);
  }

  partTitles(name: "steps" | "stages"): string[] {
    const rows = this.backends.flatMap((backend) => this.data(name, backend)?.rows ?? []);
    return [...new Set(rows.filter(({ tuned }) => tuned).map(describePart))];
  }

  partOf(name: "steps" | "stages", backend: GpuBackend, title: string): PartRow | undefined {
    return this.data(name, backend)?.rows.find((row) => describePart(row) === title);
  }
}

/** The row that a model would use: the tuned one, else the rule's; nothing where neither was measured. */
export function usedOf(rows: readonly OpRow[]): OpRow | undefined {
  const measured = rows.filter(({ error }) => error === undefined);
  return measured.find(({ isTuned }) => isTuned) ?? measured.find(({ isRule }) => isRule) ??
    measured.find(({ variant }) => variant === "");
}

export function describePart({ title, format, width, height, layers, asked }: PartRow): string {
  const size = width > 0 ? ` at ${width}×${height}` : "";
  const part = layers && layers.run < layers.all ? `, ${layers.run} of ${layers.all} layers` : "";
  const note = asked ? ` (instead of ${asked.width}×${asked.height})` : "";
  return `${title}, ${format}${size}${note}${part}`;
}

/** The rate of an op: of bytes where memory bounds it, else of arithmetic. */
export function opRate(
  { flops: work, bytes: moved, ms: time }: Pick<OpRow, "flops" | "bytes" | "ms">,
): string {
  return work / moved < MEMORY_BOUND ? rate(moved / time * 1000)! : flops(work / time * 1000)!;
}

const TORCH_REPORT = z.object({
  device: z.string(),
  torch: z.string(),
  dtype: z.string(),
  ops: z.array(z.object({
    spec: z.string(),
    ms: z.number().positive(),
    flops: z.number(),
    bytes: z.number().positive(),
  })),
  parts: z.array(z.object({
    title: z.string(),
    width: z.number(),
    height: z.number(),
    ms: z.number().positive(),
  })),
});

export type TorchReport = z.output<typeof TORCH_REPORT>;

export async function readTorchReport(path: string): Promise<TorchReport> {
  try {
    return TORCH_REPORT.parse(JSON.parse(await readText(path)));
  } catch (error) {
    throw new RangeError(
      `Cannot take ${path} for a file of torch's times: ${
        (error as Error).message.split("\n")[0]
      }; ` +
        "make it with tools/gpu_report/torch.py",
    );
  }
}
