/** An engine without a GPU: draws gradients whose colours follow from the request and its LoRAs. */

import { hiresSize } from "../../engine/hires.ts";
import { drawnSize, resultSize } from "../../engine/result_size.ts";
import { ModelLoras } from "../../engine/model_loras.ts";
import { toRgba } from "../../media/image.ts";
import type { CardEngine } from "../../engine/cards/card.ts";
import type {
  Frames,
  GenerateRequest,
  GenerationControl,
  LoraReport,
  LoraUse,
  ModelInfo,
  Residence,
  RoomRequest,
  Waveform,
} from "../../engine/types.ts";
import { ModelFilesError } from "../../engine/model_files_error.ts";
import { OutOfMemoryError } from "../../runtime/errors.ts";
import { colourOf, FAKE_COMPONENTS } from "./loras.ts";
import { FAKE_INFO } from "./model_info.ts";

/** How the fake behaves. */
export interface FakeOptions {
  /** Prompts that it does not read as a whole. */
  cutPrompts?: Frames["cutPrompts"];
  /** Parts of {@link FAKE_INFO} to replace. */
  info?: Partial<ModelInfo>;
  /** Milliseconds for each denoising step; 0 gives way to other tasks all the same. */
  stepMs?: number;
  /** Thrown by every generation. */
  failure?: unknown;
  /** Thrown for every request that is checked before it waits. */
  roomFailure?: unknown;
  /** Bytes of its device; a request takes one for each pixel. */
  deviceBytes?: number;
  /** Thrown when LoRAs are brought onto the device. */
  loraFailure?: unknown;
}

/** An engine without a GPU, which draws gradients. */
export class FakeEngine implements CardEngine {
  readonly info: ModelInfo;
  isLoaded = true;
  /** Whether the files of its model are gone. */
  isGone = false;
  /** All requests so far, in order. */
  readonly requests: GenerateRequest[] = [];
  /** What was checked before it waits. */
  readonly checked: RoomRequest[] = [];
  /** Generations that were aborted. */
  aborted = 0;
  /** Most generations that ran at once. */
  mostAtOnce = 0;
  closed = false;
  /** Most bytes of the device that it may take. */
  limitBytes = Infinity;
  /** LoRAs that were brought onto the device, each time. */
  readonly prepared: (readonly LoraUse[])[] = [];
  readonly #options: FakeOptions;
  readonly #loras = new ModelLoras();
  #running = 0;

  constructor(options: FakeOptions = {}) {
    this.#options = options;
    const { deviceBytes, info } = options;
    this.info = {
      ...FAKE_INFO,
      ...(info?.maxImages === undefined ? {} : { maxEditImages: info.maxImages }),
      ...info,
      ...(deviceBytes ? { deviceBytes } : {}),
    };
    const { loraTargets } = this.info;
    if (loraTargets.length > 0) this.#loras.components = FAKE_COMPONENTS;
  }

  async generate(
    request: GenerateRequest,
    { signal, onProgress, onFrame, onAudio, previews = 0, onPreview }: GenerationControl = {},
  ): Promise<Frames> {
    const { width, height, numFrames = this.info.defaults.numFrames } = request;
    if (this.isGone) throw new ModelFilesError("Cannot open the fake: it does not exist");
    this.requests.push(request);
    this.mostAtOnce = Math.max(this.mostAtOnce, ++this.#running);
    let colour = 0;
    try {
      if (this.#options.failure !== undefined) throw this.#options.failure;
      colour = colourOf((await this.#loras.resolve(request.loras ?? [], false)).applied);
      const totalSteps = request.numInferenceSteps;
      let previewed = 0;
      for (let step = 0; step < totalSteps; step++) {
        await new Promise((resolve) => setTimeout(resolve, this.#options.stepMs ?? 0));
        signal?.throwIfAborted();
        onProgress?.({
          stage: "denoise",
          step: step + 1,
          totalSteps,
          fraction: (step + 1) / totalSteps,
        });
        const shown = Math.floor((step + 1) * (previews + 1) / totalSteps);
        if (shown > previewed && shown <= previews) {
          onPreview?.({ width, height, data: gradient(request, colour) }, previewed++);
        }
      }
    } catch (error) {
      if (signal?.aborted) this.aborted++;
      throw error;
    } finally {
      this.#running--;
    }
    const { enableFrameInterpolation, frameInterpolationExp = 1 } = request;
    const length = enableFrameInterpolation
      ? (numFrames - 1) * 2 ** frameInterpolationExp + 1
      : numFrames;
    const size = resultSize({ ...request, ...hiresSize(request, this.info) });
    const audio = this.info.givesAudio && request.enableAudio !== false
      ? tone((numFrames - 0.5) / (request.fps ?? this.info.defaults.fps))
      : undefined;
    if (audio) onAudio?.(audio);
    const all = request.audioAlone ? [] : Array.from(
      { length: this.info.layers ? request.layers! : length },
      (_, frame) => gradient({ ...request, ...size }, frame + colour),
    ).map((rgb) => this.info.layers ? toRgba({ ...size, data: rgb }).data : rgb);
    for (const data of onFrame ? all : []) onFrame!({ ...size, data });
    const drawnAt = drawnSize(request, this.info);
    return {
      ...{ ...size, ...(drawnAt && { drawnAt }) },
      ...{ frames: onFrame ? [] : all, ...(this.info.layers && { channels: 4 as const }) },
      ...(audio && !onAudio && { audio }),
      fps: this.info.defaults.fps,
      timings: { denoise: 0.001 },
      peakBytes: width * height * 12,
      cutPrompts: this.#options.cutPrompts ?? [],
    };
  }

  get residence(): Residence {
    return this.isLoaded ? "loaded" : "unloaded";
  }

  load(): Promise<void> {
    this.isLoaded = true;
    return Promise.resolve();
  }

  unload(): Promise<void> {
    this.isLoaded = false;
    return Promise.resolve();
  }

  limitMemory(bytes: number): void {
    this.limitBytes = bytes;
  }

  isThere(): Promise<boolean> {
    return Promise.resolve(!this.isGone);
  }

  checkRoom(request: RoomRequest): Promise<void> {
    this.checked.push(request);
    const { roomFailure, deviceBytes = Infinity } = this.#options;
    const bytes = request.width * request.height;
    if (bytes > deviceBytes) {
      const message = `Cannot make this: it needs ${bytes} bytes, the device has ${deviceBytes}`;
      return Promise.reject(new OutOfMemoryError(message, bytes, deviceBytes));
    }
    return roomFailure === undefined ? Promise.resolve() : Promise.reject(roomFailure);
  }

  async checkLoras(loras: readonly LoraUse[]): Promise<readonly LoraReport[]> {
    return (await this.#loras.resolve(loras, true)).reports;
  }

  async prepareLoras(loras: readonly LoraUse[]): Promise<readonly LoraReport[]> {
    const reports = await this.checkLoras(loras);
    if (this.#options.loraFailure !== undefined) throw this.#options.loraFailure;
    this.prepared.push(loras);
    return reports;
  }

  close(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }
}

/** Two sines, 440 Hz at the left and 660 Hz at the right. */
export function tone(seconds: number, sampleRate = 24_000): Waveform {
  const channels = [440, 660].map((hertz) =>
    Float32Array.from(
      { length: Math.round(seconds * sampleRate) },
      (_, i) => 0.5 * Math.sin(2 * Math.PI * hertz * i / sampleRate),
    )
  );
  return { sampleRate, channels };
}

/** Red grows to the right, green downwards; blue is the seed's, the prompt's and the frame's. */
export function gradient(request: GenerateRequest, frame = 0): Uint8Array {
  const { width, height, prompt, seed } = request;
  const blue = (prompt.length * 31 + seed * 7 + frame) % 256;
  const data = new Uint8Array(width * height * 3);
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      data[i++] = Math.round((x * 255) / Math.max(1, width - 1));
      data[i++] = Math.round((y * 255) / Math.max(1, height - 1));
      data[i++] = blue;
    }
  }
  return data;
}
