/** Whether requests can be made at all, asked before they wait for the GPU. */
import { unrefTimer } from "../platform/mod.ts";
import type { PlanRequest, RoomSetting } from "../models/mod.ts";
import { ROOM_SETTINGS } from "../models/pipeline/settings.ts";
import { firstPass, hiresSize, redrawsByMask, secondPass } from "./hires.ts";
import { drawnSize, type NativeSizes } from "./result_size.ts";
import type { EngineWorker } from "./engine_worker.ts";
import type { ToWorker } from "./protocol.ts";
import type { ModelInfo, RoomRequest } from "./types.ts";

/** Answers that are remembered. */
const MAX_KNOWN = 256;

/** Checks whether requests fit the device. Answers are remembered: neither the model nor the device changes. */
export class RoomCheck {
  readonly #newWorker: () => EngineWorker;
  readonly #idleMs: number;
  readonly #known = new Map<string, Promise<void>>();
  #worker: EngineWorker | undefined;
  #last: Promise<unknown> = Promise.resolve();
  #idle: ReturnType<typeof setTimeout> | undefined;
  #waiting = 0;
  #isClosed = false;

  /** @param idleMs after how long without a question the thread is ended, in milliseconds */
  constructor(newWorker: () => EngineWorker, idleMs: number) {
    this.#newWorker = newWorker;
    this.#idleMs = idleMs;
  }

  /** @param ask puts the question to a thread that is there already; by default a thread of its own is asked */
  check(
    message: Extract<ToWorker, { type: "check" }>,
    ask: (message: ToWorker) => Promise<unknown> = (message) => this.#ask(message),
  ): Promise<void> {
    const key = JSON.stringify(message.size);
    const known = this.#known.get(key);
    if (known) return known;
    const answer = ask(message).then(() => {}, (error) => {
      if (error instanceof RangeError) throw error;
      // A thread that broke says nothing of the request.
      this.#known.delete(key);
    });
    this.#known.set(key, answer);
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_KNOWN) this.#known.delete(oldest!);
    return answer;
  }

  /** Ends the thread; what is asked from then on is answered by the work itself. */
  close(): void {
    this.#isClosed = true;
    this.#end();
  }

  #end(): void {
    clearTimeout(this.#idle);
    this.#worker?.terminate();
    this.#worker = undefined;
  }

  #ask(message: ToWorker): Promise<unknown> {
    this.#waiting++;
    clearTimeout(this.#idle);
    const answer = this.#last.then(() => {
      if (this.#isClosed) throw new Error("Cannot check the request: the engine is closed");
      if (this.#worker?.isBroken) this.#end();
      this.#worker ??= this.#newWorker();
      return this.#worker.ask(message);
    }).finally(() => {
      if (--this.#waiting > 0 || this.#isClosed) return;
      this.#idle = setTimeout(() => this.#end(), this.#idleMs);
      unrefTimer(this.#idle);
    });
    this.#last = answer.catch(() => {});
    return answer;
  }
}

/** The least memory that each pass of a request takes, with the shortest prompt and the smallest images. */
export function leastOf(request: RoomRequest, rules: Rules): PlanRequest[] {
  if (!hiresSize(request, rules)) return [leastOfPass(request, rules)];
  // The second pass is drawn as large as it is.
  const { nativeSides: _, ...others } = rules;
  const second = { ...secondPass(request, rules), images: 1, hasMask: redrawsByMask(rules) };
  return [leastOfPass(firstPass(request), rules), leastOfPass(second, others)];
}

function leastOfPass(request: RoomRequest, rules: Rules): PlanRequest {
  const { width, height } = request.cropSize ?? drawnSize(request, rules) ?? request;
  const { taskType, numFrames = 1, images = 0, references = 0, previews = 0 } = request;
  const { controls = 0, fps, enableAudio } = request;
  const settings = ROOM_SETTINGS.filter((name) => request[name] !== undefined)
    .map((name) => [name, request[name]] as const);
  const side = rules.imageLimits?.multiple;
  const data = new Uint8Array();
  const image = { width: side ?? width, height: side ?? height, data };
  const given = new Array(images).fill(image);
  if (request.hasMask) given[0] = { width, height, data };
  return {
    ...Object.fromEntries(settings) as Pick<RoomRequest, RoomSetting>,
    width,
    height,
    numFrames,
    ...(fps !== undefined && { fps }),
    ...(enableAudio !== undefined && { enableAudio }),
    previews,
    task: taskType,
    promptTokens: 1,
    ...(images > 0 && { images: given }),
    ...(request.hasMask && { mask: [data] }),
    control: new Array(controls).fill({ width, height, data }),
    references: new Array(references).fill({ width, height, data }),
  };
}

type Rules = NativeSizes & Pick<ModelInfo, "imageLimits" | "sampling" | "taskDefaults">;
