/** What the main thread and the worker that owns the GPU say to each other. */
import { type LifelineMessage, sharedBytes } from "../platform/mod.ts";
import type { Waveform } from "../media/waveform.ts";
import { LoraError } from "../models/lora/lora_error.ts";
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
import { SettingError } from "../models/setting_error.ts";
import type { DeviceOptions, KernelCode, Target, TeamMemory, Turns } from "../runtime/mod.ts";
import {
  DeviceLostError,
  GpuValidationError,
  NoAdapterError,
  OutOfMemoryError,
} from "../runtime/errors.ts";
import { ModelFilesError } from "./model_files_error.ts";
import type { Pass } from "./passes.ts";
import type { DeviceReport, ModelPlan, TuningReport } from "./reports.ts";
import type { Size } from "./types.ts";

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

export interface CompileTask {
  readonly device: DeviceSettings;
  readonly kernels: readonly KernelCode[];
  /** The shared memory of {@linkcode Turns}. */
  readonly turns: Turns["shared"];
}

export type MemorySettings = Pick<MemoryOptions, "offloaded" | "isPinned">;

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

export interface Room {
  readonly target: Target;
  /** Bytes that may be taken; infinite where only taking them tells. */
  readonly budgetBytes: number;
  /** Bytes of host memory that results may wait in; none by default. */
  readonly hostBytes?: number | undefined;
}

/** Where results of tuning runs are kept, and whether a run is begun where there are none. */
export interface TuningSettings {
  readonly folder: string;
  readonly mode: "cached" | "auto";
  /** How long a run may take; by class of adapter by default. */
  readonly budgetMs?: number;
}

/** LoRAs of one request. The worker keeps what it was given until it is told to forget it. */
export interface LoraMessage {
  readonly uses: readonly Omit<AppliedLora, "lora">[];
  /** LoRAs that the worker lacks, by key. Their bytes lie in shared memory, so that nothing is copied. */
  readonly added: ReadonlyMap<string, Lora>;
  /** Keys that no request will name again. */
  readonly forgotten: readonly string[];
}

/** A model's path, a folder or a file, and the paths of its parts that lie elsewhere. */
interface ModelMessage {
  readonly model: string;
  readonly parts: ModelParts;
}

interface DeviceMessage {
  readonly device: DeviceSettings;
}

export interface PlacedMessage extends ModelMessage {
  readonly memory: MemorySettings;
  readonly ranks?: RankMessage;
}

/** A message to the worker, which does one thing at a time, in order. */
export type ToWorker =
  | LifelineMessage
  | PlacedMessage & DeviceMessage & {
    readonly type: "open";
    readonly tuning?: TuningSettings;
    /** The request whose kernels are compiled. */
    readonly prepared?: PlanRequest;
    /** Whether the model was looked at or loaded before, so that its files have changed where it cannot be. */
    readonly isAgain?: boolean;
  }
  /** What a model is, and what the device has; neither stays open. */
  | ModelMessage & DeviceMessage & { readonly type: "describe" }
  | PlacedMessage & DeviceMessage & { readonly type: "plan"; readonly size: PlanRequest }
  | {
    readonly type: "generate";
    /** The request, of the size of the result. */
    readonly request: PipelineRequest;
    /** The size at which to draw it, where it is another. */
    readonly drawnAt?: Size;
    /** The size of the frames that are sent: of the request, or enlarged. */
    readonly size: Size;
    /** What the worker sends; a model that makes sound sends that, too. */
    readonly result: Pass["result"];
    readonly loras: LoraMessage;
    readonly previews: number;
    /** The memory of `FrameFlow`. */
    readonly flow: ArrayBufferLike;
  }
  /** Whether a request can be made; a worker without a model opens it, but no device. */
  | PlacedMessage & { readonly type: "check"; readonly room: Room; readonly size: PlanRequest }
  /** The threads that `compile` asked for are done; this alone comes while the worker is at work. */
  | { readonly type: "compiled" }
  /** Cancels what is being generated, where threads share no memory and waits let messages through. */
  | { readonly type: "cancel" }
  | { readonly type: "prepare"; readonly loras: LoraMessage }
  /** Frees what was kept beside weights and LoRAs, but for so many bytes. */
  | { readonly type: "release"; readonly bytes: number }
  | DeviceMessage & {
    readonly type: "inspect";
    readonly tuning?: TuningSettings;
    readonly dumpFolder?: string;
  }
  /** How many of the wanted bytes the device can give. */
  | DeviceMessage & { readonly type: "measure"; readonly wantedBytes: number }
  | DeviceMessage & { readonly type: "tune"; readonly folder: string; readonly budgetMs?: number };

export type Message<Type> = Extract<ToWorker, { type: Type }>;
export type Answer<Type> = Extract<FromWorker, { type: Type }>;

/** A message from the worker: what happens while it works, then one answer, or `failed`. */
export type FromWorker =
  | { readonly type: "note"; readonly line: string }
  | { readonly type: "tuning"; readonly fraction: number; readonly line: string }
  | { readonly type: "checking"; readonly name: string; readonly fraction: number }
  | { readonly type: "loading"; readonly fraction: number }
  | { readonly type: "compile"; readonly task: CompileTask }
  | { readonly type: "compiling"; readonly done: number; readonly total: number }
  | { readonly type: "tokenizing"; readonly isOver: boolean }
  | { readonly type: "progress"; readonly progress: PipelineProgress }
  | {
    /** RGB, 3 bytes per pixel, or RGBA of models that give alpha; transferred. */
    readonly type: "frame" | "preview";
    readonly data: Uint8Array<ArrayBuffer>;
    /** Frames and previews are counted by themselves, from 0. */
    readonly index: number;
  }
  /** Sound, before the first frame; transferred. */
  | { readonly type: "audio"; readonly audio: Waveform }
  | {
    /** Answers `open` and `describe`. */
    readonly type: "opened";
    readonly info: PipelineInfo;
    readonly adaptable: readonly AdaptableComponent[];
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
    /** Where they are the result. */
    readonly latents?: Float32Array;
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
  | { readonly type: "measured"; readonly bytes: number; readonly isSoftware: boolean }
  | { readonly type: "tuned"; readonly report: TuningReport }
  | { readonly type: "failed"; readonly error: ErrorRecord };

export interface ErrorRecord {
  readonly name: string;
  /** The error's message, as thrown. */
  readonly message: string;
  /** Stack of the worker where the error was thrown, for the log. */
  readonly stack?: string;
  readonly requestedBytes?: number;
  readonly availableBytes?: number;
  /** What is wrong with the file, of a `LoraError`. */
  readonly problems?: readonly string[];
  /** Of a `SettingError`: the setting that is refused. */
  readonly setting?: string;
}

const CLASSES: Readonly<Record<string, new (message: string) => Error>> = {
  RangeError,
  TypeError,
  SyntaxError,
  DeviceLostError,
  GpuValidationError,
  ModelFilesError,
  NoAdapterError,
};

/** What to send for whatever was thrown. */
export function toErrorRecord(thrown: unknown): ErrorRecord {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const { name, message, stack } = error;
  return {
    name,
    message,
    ...(stack === undefined ? {} : { stack }),
    ...(error instanceof OutOfMemoryError
      ? { requestedBytes: error.requestedBytes, availableBytes: error.availableBytes }
      : {}),
    ...(error instanceof LoraError ? { problems: error.problems } : {}),
    ...(error instanceof SettingError ? { setting: error.setting } : {}),
  };
}

/** The error of its class again: callers tell bad requests from defects by it. */
export function fromErrorRecord(record: ErrorRecord): Error {
  const { name, message, stack, requestedBytes = 0, availableBytes = 0, problems, setting } =
    record;
  if (name === "AbortError") return new DOMException(message, name);
  const Class = Object.hasOwn(CLASSES, name) ? CLASSES[name]! : Error;
  const error: Error = name === "OutOfMemoryError"
    ? new OutOfMemoryError(message, requestedBytes, availableBytes)
    : name === "LoraError"
    ? new LoraError(message, problems)
    : setting !== undefined
    ? new SettingError(setting, message)
    : new Class(message);
  if (error.name !== name) error.name = name;
  if (stack !== undefined) error.stack = stack;
  return error;
}

/** Most bytes of frames on their way; a single frame may be larger. */
const MAX_BYTES = 64e6;

/** How long one wait lasts before the worker looks whether it is cancelled, in milliseconds. */
const LOOK_MS = 50;

const [BYTES, CANCELLED] = [0, 1];

/**
 * What both threads share of one generation. It can be cancelled, for messages do not arrive while the worker waits for the
 * GPU; and frames are made no faster than they are taken, for those on their way would fill the memory.
 */
export class FrameFlow {
  readonly #values: Int32Array;

  constructor(readonly shared: ArrayBufferLike = sharedBytes(8)) {
    this.#values = new Int32Array(shared);
  }

  /** Whether both threads see the same memory; a tab without isolation has none to share. */
  get isShared(): boolean {
    return !(this.shared instanceof ArrayBuffer);
  }

  get isCancelled(): boolean {
    return Atomics.load(this.#values, CANCELLED) !== 0;
  }

  cancel(): void {
    Atomics.store(this.#values, CANCELLED, 1);
  }

  /** Waits in the worker until a frame may be sent, and counts it. */
  send(bytes: number): void {
    if (!this.isShared) return;
    for (;;) {
      const sent = Atomics.load(this.#values, BYTES);
      if (sent === 0 || sent + bytes <= MAX_BYTES || this.isCancelled) break;
      Atomics.wait(this.#values, BYTES, sent, LOOK_MS);
    }
    Atomics.add(this.#values, BYTES, bytes);
  }

  /** Lets the worker go on: a frame was taken, or nobody wants it. */
  take(bytes: number): void {
    Atomics.sub(this.#values, BYTES, bytes);
    Atomics.notify(this.#values, BYTES);
  }
}
