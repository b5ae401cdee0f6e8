/** The sections of a report, one after the other, each with its part of the time. */

import type { GpuBackend } from "../runtime/mod.ts";
import type { Known, SectionOrder } from "./sections/section.ts";
import {
  type GpuReport,
  type Machine,
  memoryRate,
  REPORT_FORMAT,
  type SectionData,
  type SectionName,
  type SectionResult,
} from "./types.ts";

/** The sections in the order in which they run, with the part of the time that is meant for each. */
export const SECTION_SHARES: Readonly<Record<SectionName, number>> = {
  environment: 5,
  probes: 30,
  correctness: 140,
  tuning: 50,
  ops: 120,
  steps: 200,
  stages: 55,
};

/** Part of the time that processes need to start and end. */
const RESERVE = 0.03;

interface ReportOptions {
  readonly minutes: number;
  readonly backends: readonly GpuBackend[];
  /** In this order; all by default, in that of {@linkcode SECTION_SHARES}. */
  readonly sections?: readonly SectionName[] | undefined;
  readonly powerPreference?: GPUPowerPreference | undefined;
  readonly forceSoftware?: boolean | undefined;
  /** Bytes of device memory that may be taken; any number by default. */
  readonly maxBytes?: number | undefined;
  readonly version: string;
  readonly machine: Machine;
  /** Runs a section where its end ends nothing else; told what is done. */
  runSection(order: SectionOrder, onBegin: (what: string) => void): Promise<SectionResult>;
  onBegin(section: string, what: string): void;
  /** Takes the report as it is after every section. */
  onReport(report: GpuReport): Promise<void>;
}

export async function runReport(options: ReportOptions): Promise<GpuReport> {
  const begun = performance.now();
  const end = begun + options.minutes * 60_000 * (1 - RESERVE);
  const sections: SectionResult[] = [];
  const report: GpuReport = {
    format: REPORT_FORMAT,
    date: new Date().toISOString(),
    denoise: options.version,
    minutes: options.minutes,
    machine: options.machine,
    sections,
  };
  const names = options.sections ?? Object.keys(SECTION_SHARES) as SectionName[];
  let { backends } = options;
  const known = new Map<GpuBackend, Known>();
  for (const [i, name] of names.entries()) {
    for (const [k, backend] of [...backends].entries()) {
      const left = (end - performance.now()) / 1000;
      const own = SECTION_SHARES[name];
      const later = names.slice(i + 1).reduce((sum, next) => sum + SECTION_SHARES[next], 0);
      const shares = own * (backends.length - k) + later * backends.length;
      const order: SectionOrder = {
        name,
        device: {
          backend,
          ...(options.powerPreference && { powerPreference: options.powerPreference }),
          ...(options.forceSoftware && { forceFallbackAdapter: true }),
          ...(options.maxBytes !== undefined && { maxBytes: options.maxBytes }),
        },
        seconds: Math.max(0, left) * own / shares,
        known: known.get(backend) ?? {},
      };
      const title = `${name}, ${backend}`;
      options.onBegin(title, `${order.seconds.toFixed(0)} s at most`);
      const result = await options.runSection(order, (what) => options.onBegin(title, what));
      sections.push(result);
      known.set(backend, { ...known.get(backend), ...learn(result) });
      await options.onReport(report);
      // What does not open is not tried again.
      const isAbsent = name === names[0] && result.state === "failed" && !result.data;
      if (isAbsent) backends = backends.filter((each) => each !== backend);
    }
  }
  return report;
}

function learn({ name, data }: SectionResult): Known {
  if (!data) return {};
  switch (name) {
    case "probes": {
      const probes = data as SectionData["probes"];
      const { arithmetic } = probes;
      const bytesPerSecond = memoryRate(probes);
      return {
        ...(arithmetic.f32 && { flopsPerSecond: arithmetic.f32 }),
        ...(arithmetic.matrix && { matrixFlopsPerSecond: arithmetic.matrix }),
        ...(bytesPerSecond && { bytesPerSecond }),
      };
    }
    case "tuning":
      return { tuning: (data as SectionData["tuning"]).tuning };
    case "ops": {
      const { rows } = data as SectionData["ops"];
      const used = rows.find(({ isTuned, ms }) => isTuned && ms > 0) ??
        rows.find(({ isRule, ms }) => isRule && ms > 0);
      return used ? { layerFlopsPerSecond: used.flops / used.ms * 1000 } : {};
    }
    default:
      return {};
  }
}
