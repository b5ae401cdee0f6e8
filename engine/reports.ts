/** What is told of a machine and of what a model would take on it. */

import type { GpuBackend } from "../runtime/device/backends/backend.ts";
import type { CutPrompt, MemoryReport, PipelineProgress } from "../models/mod.ts";
import type { KernelChoice, Tuning } from "../runtime/mod.ts";
import type { ModelInfo, Progress, Size } from "./types.ts";

/** Cost of making a request with several GPUs together. */
export interface HandoverEstimate {
  /** How many they are. */
  gpus: number;
  /** Seconds of each step, estimated with a probe on this machine. */
  stepSeconds: number;
  /** How long a step must take on one GPU for that to pay, in seconds; nothing where it is not done for speed. */
  paysFromSeconds?: number;
}

/** What a model's request would take on this machine. */
export interface ModelPlan {
  /** The adapter as the driver names it. */
  adapter: string;
  /** Width that was planned for, in pixels. */
  width: number;
  /** Height that was planned for, in pixels. */
  height: number;
  /** The size at which the model would draw, where it is smaller and the result is enlarged. */
  drawnAt?: Size;
  /** Frames that were planned for; 1 is an image. */
  numFrames: number;
  /** What each stage takes, and whether it fits; of several GPUs that make it together, on the first. */
  memory: MemoryReport;
  /** What handing over costs, where several GPUs make it together. */
  handover?: HandoverEstimate;
}

/** One numeric check that a device went through. */
interface SelfTest {
  /** What was computed. */
  name: string;
  /** `passed`: every case that ran was close enough to the reference; `skipped`: none ran. */
  outcome: "passed" | "failed" | "skipped";
  /** How many cases ran, why none did, or what was wrong. */
  detail: string;
}

/** What a machine's adapter offers and whether it computes what it should. */
export interface DeviceReport {
  /** The adapter as the driver names it. */
  adapter: string;
  /** The maker, as WebGPU gives it; may be empty. */
  vendor: string;
  /** Name and version of the driver, as far as WebGPU tells; may be empty. */
  driver: string;
  /** The WebGPU implementation that was used. */
  backend: GpuBackend;
  /** Whether the adapter computes on the CPU. */
  isSoftware: boolean;
  /** Whether the device takes the system's memory and has none of its own. */
  isUnified: boolean;
  /** Bytes of memory that it takes at most unless a flag says more; left out where only taking them tells. */
  maxBytes?: number;
  /** WebGPU limits by name. */
  limits: Readonly<Record<string, number>>;
  /** Optional features that can be used. */
  features: readonly string[];
  /** Numeric checks in the order they ran; empty when no device could be opened. */
  selfTests: readonly SelfTest[];
  /** Which kernels are used, by op and class of problems. */
  kernels: readonly KernelChoice[];
  /** Where the expanded kernels were written, and how many; none where nobody asked. */
  dump?: { folder: string; files: number };
  /** The tuning run that chose them; none when they are chosen by rule. */
  tuned?: { path: string; date: Date; seconds: number };
}

/** How a tuning run ended. */
export interface TuningReport {
  /** The adapter as the driver names it. */
  adapter: string;
  /** What was measured. */
  tuning: Tuning;
  /** Which kernels are used from now on. */
  kernels: readonly KernelChoice[];
  /** The file that keeps it; none when it could not be written. */
  path: string | undefined;
}

/** Share of a generation that each stage is taken to need until its time is known. */
const STAGES = {
  encode: { start: 0, share: 0.05 },
  denoise: { start: 0.05, share: 0.85 },
  decode: { start: 0.9, share: 0.1 },
};

/** Before anything is computed: the model has to be loaded first. */
export const LOADING: Progress = { stage: "load", step: 0, totalSteps: 0, fraction: 0 };

/** Before anything is computed: kernels that this request is the first to need are compiled. */
export function compiling(step: number, totalSteps: number): Progress {
  return { stage: "compile", step, totalSteps, fraction: 0 };
}

/** Where one of several passes lies in the whole, as shares of the time and in steps. */
export interface ProgressPart {
  readonly start: number;
  readonly share: number;
  readonly before: number;
  readonly after: number;
}

const WHOLE: ProgressPart = { start: 0, share: 1, before: 0, after: 0 };

/** Turns finished steps into a share of the whole and a time left. */
export class ProgressClock {
  readonly #now: () => number;
  readonly #start: number;
  #fraction = 0;
  #step = 0;
  #totalSteps = 0;

  /** @param now milliseconds from any moment on */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#start = now();
  }

  update({ stage, step, totalSteps }: PipelineProgress, part = WHOLE): Progress {
    const { start, share } = STAGES[stage];
    const own = start + share * (totalSteps > 0 ? step / totalSteps : 0);
    this.#fraction = Math.max(this.#fraction, part.start + part.share * own);
    if (stage === "denoise") {
      this.#step = part.before + step;
      this.#totalSteps = part.before + totalSteps + part.after;
    }
    const elapsed = (this.#now() - this.#start) / 1000;
    // The first steps compile shaders: an estimate from them would be far too long.
    const isKnown = stage !== "encode" && (stage !== "denoise" || step >= 2);
    return {
      stage,
      step: this.#step,
      totalSteps: this.#totalSteps,
      fraction: this.#fraction,
      ...(isKnown ? { etaSeconds: elapsed * (1 - this.#fraction) / this.#fraction } : {}),
    };
  }
}

/** What of a prompt is not read, why, and what helps, in a sentence. */
export function describeCut(
  { prompt, tokens, read, unread }: CutPrompt,
  { maxSequenceLength: most = 0 }: Partial<Pick<ModelInfo, "maxSequenceLength">> = {},
): string {
  const name = prompt.replace("_", " ");
  if (read === 0) return `The ${name} is not read, for there is no guidance: "${unread}"`;
  const more = read < most ? `; max_sequence_length reads up to ${most}` : "";
  return `The ${name} has ${tokens} tokens, and the first ${read} are read; not read: "${unread}"${more}`;
}
