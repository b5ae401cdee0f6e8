/** The sections of a report, one after the other, each with its part of the time. */

import type { GpuBackend } from "../runtime/mod.ts";
import { findDawn } from "../runtime/device/backends/dawn_package.ts";
import { runSectionProcess } from "./section_process.ts";
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
  /** Backends to measure; both where Dawn is installed by default. */
  readonly backends?: readonly GpuBackend[] | undefined;
  /** All by default. */
  readonly sections?: readonly SectionName[] | undefined;
  readonly powerPreference?: GPUPowerPreference | undefined;
  readonly forceSoftware?: boolean | undefined;
  readonly version: string;
  /** Program and arguments that start `runSection`. */
  readonly command: readonly string[];
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
    machine: await readMachine(),
    sections,
  };
  const names = (Object.keys(SECTION_SHARES) as SectionName[])
    .filter((name) => options.sections?.includes(name) ?? true);
  let backends = options.backends ?? availableBackends();
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
        },
        seconds: Math.max(0, left) * own / shares,
        known: known.get(backend) ?? {},
      };
      const title = `${name}, ${backend}`;
      options.onBegin(title, `${order.seconds.toFixed(0)} s at most`);
      const result = await runSectionProcess(
        order,
        options.command,
        (what) => options.onBegin(title, what),
      );
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

function availableBackends(): GpuBackend[] {
  try {
    findDawn();
    return ["deno", "dawn"];
  } catch {
    return ["deno"];
  }
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

/** What figures depend on, without what tells whose machine it is. */
async function readMachine(): Promise<Machine> {
  const { os, arch } = Deno.build;
  const nvidia = /Kernel Module.{0,80}?\s(\d+(?:\.\d+)+)\s/.exec(
    await textOf("/proc/driver/nvidia/version"),
  )?.[1];
  return {
    os: `${os} ${arch}, ${Deno.osRelease()}`,
    cpu: await cpuName(),
    cores: navigator.hardwareConcurrency,
    memory: Deno.systemMemoryInfo().total,
    deno: Deno.version.deno,
    ...(nvidia && { nvidia }),
  };
}

async function cpuName(): Promise<string> {
  if (Deno.build.os === "darwin") return await outputOf("sysctl", "-n", "machdep.cpu.brand_string");
  if (Deno.build.os === "windows") return Deno.env.get("PROCESSOR_IDENTIFIER") ?? "";
  return /^model name\s*:\s*(.*)$/m.exec(await textOf("/proc/cpuinfo"))?.[1] ?? "";
}

async function textOf(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch {
    return "";
  }
}

async function outputOf(command: string, ...args: string[]): Promise<string> {
  try {
    const { stdout } = await new Deno.Command(command, { args, stderr: "null" }).output();
    return new TextDecoder().decode(stdout).trim();
  } catch {
    return "";
  }
}
