/** A report of a GPU, as `report.json` holds it. */

import type {
  GpuBackend,
  TargetFeatures,
  TargetLimits,
  Tuning,
  VariantTiming,
} from "../runtime/mod.ts";
import type { ReadRate } from "./ceilings.ts";
import type { PartLoading, PartTiming } from "./loaded_part.ts";

export const REPORT_FORMAT = 1;

export interface GpuReport {
  readonly format: typeof REPORT_FORMAT;
  /** When it began, in ISO 8601. */
  readonly date: string;
  readonly denoise: string;
  /** Minutes that it was allowed. */
  readonly minutes: number;
  readonly machine: Machine;
  /** Sections in the order in which they ran. */
  readonly sections: readonly SectionResult[];
}

/** What the figures depend on beside the adapter. */
export interface Machine {
  readonly os: string;
  readonly cpu: string;
  readonly cores: number;
  /** Memory of the machine in bytes. */
  readonly memory: number;
  /** What ran the program, and its version, such as `deno 2.9.6` or `firefox 153`. */
  readonly runtime: string;
  /** The NVIDIA kernel module's version, where there is one: WebGPU does not tell. */
  readonly nvidia?: string;
}

export interface SectionData {
  readonly environment: EnvironmentData;
  readonly probes: ProbesData;
  readonly correctness: CorrectnessData;
  readonly tuning: TuningData;
  readonly ops: OpsData;
  readonly steps: PartsData;
  readonly stages: PartsData;
}

export type SectionName = keyof SectionData;

export interface SectionResult<Name extends SectionName = SectionName> {
  readonly name: Name;
  readonly backend: GpuBackend;
  /** `cut`: it used up its time; `failed`: its process ended, or an error ended it. */
  readonly state: "done" | "cut" | "failed";
  /** What ended it, and at what. */
  readonly reason?: string;
  readonly seconds: number;
  /** What was found until then; nothing where that was nothing. */
  readonly data?: SectionData[Name];
}

interface EnvironmentData {
  readonly adapter: string;
  readonly vendor: string;
  readonly driver: string;
  readonly isSoftware: boolean;
  readonly dialect: string;
  readonly features: TargetFeatures;
  readonly limits: TargetLimits;
  /** Device memory that could be allocated, in bytes, and whether more was not tried. */
  readonly allocatable: { readonly bytes: number; readonly isAll: boolean };
}

/** What the device can do at most, and what its handling costs. */
export interface ProbesData {
  readonly clock?: "timestamps" | "wall";
  /** Operations per second in registers, by type of number; `matrix` on matrix units. */
  readonly arithmetic: Readonly<Partial<Record<"f32" | "f16" | "i8" | "matrix", number>>>;
  /** Reads by a kernel, beyond the caches first. */
  readonly reads: readonly ReadRate[];
  /** Bytes per second. */
  readonly copies?: number;
  readonly workgroupReads?: number;
  /** Milliseconds of a wait for nothing. */
  readonly idleMs?: number;
  /** Microseconds of the GPU from one launch to the next, of this side to encode one, and of a submit. */
  readonly launchUs?: number;
  readonly encodeUs?: number;
  readonly submitUs?: number;
  readonly uploads: readonly Transfer[];
  readonly readBacks: readonly Transfer[];
  /** First compilations of some kernels; a driver may have kept them. */
  readonly compilations: readonly {
    readonly spec: string;
    readonly kernel: string;
    readonly ms: number;
  }[];
}

/** Bytes per second of the faster of reads and copies; nothing where neither was measured. */
export function memoryRate(
  { reads, copies = 0 }: Pick<ProbesData, "reads" | "copies">,
): number | undefined {
  return Math.max(copies, reads[0]?.bytesPerSecond ?? 0) || undefined;
}

/** Bytes that go to the device or come from it. */
export interface Transfer {
  readonly bytes: number;
  readonly ms: number;
}

/** The case tables of all ops, on every variant that takes them. */
interface CorrectnessData {
  /** Runs that there are, those that ran, and those of them that equal their reference. */
  readonly total: number;
  readonly ran: number;
  readonly passed: number;
  /** Cases that a variant does not take. */
  readonly refused: number;
  readonly pipelines: number;
  readonly failures: readonly CaseFailure[];
}

export interface CaseFailure {
  readonly op: string;
  readonly variant: string;
  readonly case: string;
  readonly message: string;
}

interface TuningData {
  readonly runs: readonly TuningRun[];
  readonly classes: readonly TunedClass[];
  /** What the first run found, for what is measured later. */
  readonly tuning: Tuning;
}

export interface TuningRun {
  readonly seconds: number;
  readonly measured: number;
  readonly known: number;
}

export interface TunedClass {
  readonly op: string;
  readonly problemClass: string;
  /** Times of each run that measured the class, the preferred variant first. */
  readonly timings: readonly (readonly VariantTiming[])[];
}

interface OpsData {
  readonly clock?: "timestamps" | "wall";
  readonly rows: readonly OpRow[];
}

export interface TimedOp {
  /** The op as asked, such as `linear:4160x10240x3840:bf16`. */
  readonly spec: string;
  readonly variant: string;
  /** In the order in which they run. */
  readonly kernels: readonly string[];
  readonly ms: number;
  /** Arithmetic operations of one call, and bytes where every input and the result move once. */
  readonly flops: number;
  readonly bytes: number;
  /** Share of what the device can do at most: of its matrix units for kernels on those. */
  readonly share?: number;
}

/** What a report says of it. */
export interface OpRow extends TimedOp {
  /** The op as measured, where a smaller one had to do. */
  readonly scaled?: string;
  /** Whether the rule, and the tuning run, would choose it. */
  readonly isRule: boolean;
  readonly isTuned: boolean;
  /** Why there is no time. */
  readonly error?: string;
}

interface PartsData {
  readonly rows: readonly PartRow[];
}

export interface PartRow {
  readonly title: string;
  readonly width: number;
  readonly height: number;
  readonly format: string;
  /** Layers that were run, of those of the model; nothing where it is not built of layers. */
  readonly layers?: { readonly run: number; readonly all: number };
  /** Size that was asked for, where a smaller one had to do. */
  readonly asked?: { readonly width: number; readonly height: number };
  readonly flops: number;
  readonly dispatches: number;
  readonly weightBytes: number;
  readonly workspaceBytes: number;
  readonly loading?: PartLoading;
  /** Times with the kernels of the tuning run, where there was one. */
  readonly tuned?: PartTiming;
  /** Times with the kernels of the rule. */
  readonly untuned?: PartTiming;
  /** Times with factors in f32, as `quality: exact` has them. */
  readonly exact?: PartTiming;
  /** Times with weights that are brought to the device in every step. */
  readonly streamed?: PartTiming;
  /** The longest, of the best of the runs. */
  readonly kernels?: readonly {
    readonly name: string;
    readonly dispatches: number;
    readonly ms: number;
  }[];
  /** What could not be measured, and why. */
  readonly error?: string;
}

/** Whether a section ended as it should not: that a WebGPU implementation has no adapter here is no failure. */
export function hasFailed({ name, state, data }: SectionResult): boolean {
  return state === "failed" && !(name === "environment" && data === undefined);
}
