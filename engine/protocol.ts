/** What the main thread and the worker that owns the GPU say to each other. */
import type { LifelineMessage } from "./lifeline.ts";
import type { AdaptableComponent, AppliedLora, Lora } from "../models/lora/types.ts";
import type {
  CutPrompt,
  MemoryOptions,
  MemoryReport,
  ModelParts,
  PipelineInfo,
  PipelineProgress,
  PipelineRequest,
  PlanRequest,
} from "../models/mod.ts";
import type { DeviceOptions, KernelCode, Target, TeamMemory, Turns } from "../runtime/mod.ts";
import type { ErrorRecord } from "./error_record.ts";
import type { DeviceReport, ModelPlan, TuningReport } from "./reports.ts";
import type { Size } from "./types.ts";

/** How the worker opens its device. */
export type DeviceSettings = Readonly<
  Pick<
    DeviceOptions,
    | "maxBytes"
    | "powerPreference"
    | "forceFallbackAdapter"
    | "backend"
    | "environment"
    | "sharers"
  >
>;

/** Kernels for threads that compile. */
export interface CompileTask {
  /** How to open a device. */
  readonly device: DeviceSettings;
  readonly kernels: readonly KernelCode[];
  /** The shared memory of {@linkcode Turns}. */
  readonly turns: Turns["shared"];
}

/** How the device's memory is used. */
export type MemorySettings = Pick<MemoryOptions, "offloaded" | "isPinned">;

/** A place in a team. */
export interface TeamSeat {
  readonly memory: TeamMemory;
  readonly rank: number;
}

/** The teams that a worker is in, where several GPUs make a request together; see `Ranks`. */
export interface RankMessage {
  readonly guidance?: TeamSeat;
  readonly sequence?: TeamSeat & { readonly ulysses: number };
  readonly layers?: TeamSeat;
}

/** What an open device has for requests. */
export interface Room {
  /** What the worker's kernels are chosen for. */
  readonly target: Target;
  /** Bytes that may be taken; infinite where only taking them tells. */
  readonly budgetBytes: number;
  /** Bytes of host memory that results may wait in; none when left out. */
  readonly hostBytes?: number | undefined;
}

/** Where results of tuning runs are kept, and whether a run is begun where there are none. */
export interface TuningSettings {
  readonly folder: string;
  readonly mode: "cached" | "auto";
  /** How long a run may take; by class of adapter when left out. */
  readonly budgetMs?: number;
}

/** LoRAs of one request. The worker keeps what it was given until it is told to forget it. */
export interface LoraMessage {
  /** LoRAs in the order in which they are applied. */
  readonly uses: readonly Omit<AppliedLora, "lora">[];
  /** LoRAs that the worker lacks, by key. Their bytes lie in shared memory, so that nothing is copied. */
  readonly added: ReadonlyMap<string, Lora>;
  /** Keys that no request will name again. */
  readonly forgotten: readonly string[];
}

/** A message to the worker, which does one thing at a time, in order. */
export type ToWorker =
  | LifelineMessage
  | {
    readonly type: "open";
    /** Path of a folder or file. */
    readonly model: string;
    readonly parts: ModelParts;
    readonly device: DeviceSettings;
    readonly memory: MemorySettings;
    readonly tuning?: TuningSettings;
    readonly ranks?: RankMessage;
    /** The request whose kernels are compiled. */
    readonly prepared?: PlanRequest;
  }
  | {
    /** What a model is, and what the device has; neither stays open. */
    readonly type: "describe";
    readonly model: string;
    readonly parts: ModelParts;
    readonly device: DeviceSettings;
  }
  | {
    readonly type: "plan";
    readonly model: string;
    readonly parts: ModelParts;
    readonly device: DeviceSettings;
    readonly memory: MemorySettings;
    readonly size: PlanRequest;
    readonly ranks?: RankMessage;
  }
  | {
    readonly type: "generate";
    /** The request, of the size of the result. */
    readonly request: PipelineRequest;
    /** The size at which to draw it, where it is another. */
    readonly drawnAt?: Size;
    readonly loras: LoraMessage;
    /** How many previews are wanted. */
    readonly previews: number;
    /** One u32, non-zero to cancel: messages do not arrive while the worker waits for the GPU. */
    readonly cancel: SharedArrayBuffer;
    /** The shared memory of `FrameFlow`. */
    readonly flow: SharedArrayBuffer;
  }
  | {
    /** Whether a request can be made; a worker without a model opens it, but no device. */
    readonly type: "check";
    readonly model: string;
    readonly parts: ModelParts;
    readonly memory: MemorySettings;
    readonly room: Room;
    readonly size: PlanRequest;
    readonly ranks?: RankMessage;
  }
  | {
    /** The threads that `compile` asked for are done; this alone comes while the worker is at work. */
    readonly type: "compiled";
  }
  | { readonly type: "prepare"; readonly loras: LoraMessage }
  | {
    readonly type: "release";
    /** What may stay on the device beside weights and LoRAs. */
    readonly bytes: number;
  }
  | {
    readonly type: "inspect";
    readonly device: DeviceSettings;
    readonly tuning?: TuningSettings;
    /** Where to write the expanded kernels. */
    readonly dumpFolder?: string;
  }
  | {
    /** How much of what is wanted the device can give. */
    readonly type: "measure";
    readonly device: DeviceSettings;
    readonly wantedBytes: number;
  }
  | {
    readonly type: "tune";
    readonly device: DeviceSettings;
    readonly folder: string;
    readonly budgetMs?: number;
  };

/** A message from the worker: what happens while it works, then one answer, or `failed`. */
export type FromWorker =
  | { readonly type: "note"; readonly line: string }
  | { readonly type: "tuning"; readonly fraction: number; readonly line: string }
  | { readonly type: "loading"; readonly fraction: number }
  | {
    /** Asks for threads that compile. */
    readonly type: "compile";
    readonly task: CompileTask;
  }
  | { readonly type: "compiling"; readonly done: number; readonly total: number }
  | { readonly type: "tokenizing"; readonly isOver: boolean }
  | { readonly type: "progress"; readonly progress: PipelineProgress }
  | {
    /** RGB, 3 bytes per pixel, but for frames that are layers: RGBA; transferred. */
    readonly type: "frame" | "preview";
    readonly data: Uint8Array<ArrayBuffer>;
    /** Frames and previews are counted by themselves, from 0. */
    readonly index: number;
  }
  | {
    /** Answers `open` and `describe`. */
    readonly type: "opened";
    readonly info: PipelineInfo;
    readonly adaptable: readonly AdaptableComponent[];
    /** The adapter as the driver names it. */
    readonly adapter: string;
    readonly maxPixels: number;
    readonly room: Room;
  }
  | { readonly type: "checked" }
  | {
    readonly type: "generated";
    readonly timings: Readonly<Record<string, number>>;
    readonly cutPrompts: readonly CutPrompt[];
    readonly peakBytes: number;
  }
  | { readonly type: "prepared" }
  | { readonly type: "released" }
  | {
    readonly type: "planned";
    readonly adapter: string;
    /** What was planned for, with the model's own values where it was left open. */
    readonly size: Pick<ModelPlan, "width" | "height" | "drawnAt" | "numFrames">;
    readonly report: MemoryReport;
    /** Seconds that a step takes to hand its part to other GPUs. */
    readonly handoverSeconds?: number;
  }
  | { readonly type: "inspected"; readonly report: DeviceReport }
  | { readonly type: "measured"; readonly bytes: number }
  | { readonly type: "tuned"; readonly report: TuningReport }
  | { readonly type: "failed"; readonly error: ErrorRecord };
