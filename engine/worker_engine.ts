import { hasIndex } from "../hub/model_index.ts";
import { isFile, unrefTimer } from "../platform/mod.ts";
import type { CardEngine } from "./cards/card.ts";
import { EngineWorker } from "./engine_worker.ts";
import { loraTargets, ModelLoras } from "./model_loras.ts";
import type { EngineOptions } from "./options.ts";
import { hiresSize } from "./hires.ts";
import { type Pass, passesOf, startingFrom } from "./passes.ts";
import { checkResultSize, toPipelineRequest } from "./result_size.ts";
import { compiling, describeCut, LOADING, ProgressClock } from "./reports.ts";
import { type Answer, FrameFlow, type PlacedMessage, type Room } from "./protocol.ts";
import { leastOf, RoomCheck } from "./room_check.ts";
import type {
  Frames,
  GenerateRequest,
  GenerationControl,
  Image,
  LoraReport,
  LoraUse,
  ModelInfo,
  Residence,
  RoomRequest,
  Waveform,
} from "./types.ts";
import { deviceSettings, memorySettings, tuningSettings } from "./worker_settings.ts";

/** What the last request may leave on the device for that time and longer, in bytes. */
const KEPT_BYTES = 256e6;

/** Most denoising steps that a request may ask for. */
const MAX_STEPS = 1000;
/** Most frames of a video: a given one is held in memory as pixels, 0.7 GB at 1280x720. */
const MAX_FRAMES = 257;

interface Waits {
  /** How long a worker may take to heed an abort before it is ended. */
  readonly abortMs: number;
  /** After how long without a request the memory of a large one is freed. */
  readonly releaseMs: number;
  /** How long the tokenizer may take for a request before the worker is ended. */
  readonly tokenizeMs: number;
}

const WAITS: Waits = { abortMs: 30_000, releaseMs: 60_000, tokenizeMs: 20_000 };

/** An engine whose GPU belongs to a worker, which is replaced when it or its device is lost. */
export class WorkerEngine implements CardEngine {
  readonly #options: EngineOptions;
  readonly #model: PlacedMessage;
  readonly #newWorker: () => EngineWorker;
  readonly #waits: Waits;
  #worker: EngineWorker | undefined;
  #info: ModelInfo | undefined;
  #room: Room | undefined;
  readonly #roomCheck: RoomCheck;
  /** LoRAs that were read, for further engines of this model. */
  readonly loras: ModelLoras;
  /** The adapter as the driver names it; known once the engine has started. */
  adapter = "";
  #last: Promise<unknown> = Promise.resolve();
  /** What is asked for and not done yet. */
  #waiting = 0;
  readonly #idle: ReturnType<typeof setTimeout>[] = [];
  #isClosed = false;
  #flow: FrameFlow | undefined;
  /** Threads that were told to end and may still be at work. */
  readonly #ending = new Set<Promise<void>>();
  #isStarting = false;
  #maxBytes: number | undefined;

  /** @param model path of its folder or file; the paths of `options.parts` are looked up too */
  constructor(
    model: string,
    options: EngineOptions,
    newWorker = () => new EngineWorker(),
    waits: Partial<Waits> = {},
  ) {
    this.#waits = { ...WAITS, ...waits };
    this.#options = options;
    this.#model = { model, parts: options.parts ?? {}, memory: memorySettings(options) };
    this.#newWorker = newWorker;
    this.loras = options.sharedLoras ?? new ModelLoras(options);
    this.#roomCheck = new RoomCheck(newWorker, this.#waits.releaseMs);
  }

  /** Known once the engine has started. */
  get info(): ModelInfo {
    if (!this.#info) throw new Error("Cannot describe the model: it is not loaded yet");
    return this.#info;
  }

  get residence(): Residence {
    if (!this.#worker || this.#worker.isBroken) return "unloaded";
    return this.#isStarting ? "loading" : "loaded";
  }

  /** Looks at the model and the device, instead of {@linkcode WorkerEngine.start}. */
  async describe(): Promise<void> {
    const worker = this.#newWorker();
    this.#worker = worker;
    this.#isStarting = true;
    try {
      const device = deviceSettings(this.#options);
      this.#learn(await worker.ask({ type: "describe", ...this.#model, device }) as Opened);
    } finally {
      this.#isStarting = false;
      this.#drop(worker);
      await Promise.all(this.#ending);
    }
  }

  load(): Promise<void> {
    return this.#inTurn(async () => void await this.#ready("load"));
  }

  unload(): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#worker) this.#drop(this.#worker);
      await Promise.all(this.#ending);
    });
  }

  limitMemory(bytes: number): void {
    this.#maxBytes = Math.min(bytes, this.#options.maxVramBytes ?? Infinity);
    if (this.#room) this.#room = { ...this.#room, budgetBytes: this.#maxBytes };
  }

  async start(): Promise<EngineWorker> {
    const worker = this.#newWorker();
    // Known before it is ready, so that close() ends it while it loads.
    this.#worker = worker;
    this.#isStarting = true;
    try {
      const { prepared } = this.#options;
      const maxBytes = this.#maxBytes;
      const message = {
        type: "open",
        ...this.#model,
        device: { ...deviceSettings(this.#options), ...(maxBytes !== undefined && { maxBytes }) },
        ...tuningSettings(this.#options),
        ...(prepared && { prepared }),
        isAgain: this.#info !== undefined,
      } as const;
      const answer = await worker.ask(message, (event) => {
        if (event.type === "loading" || event.type === "tuning") {
          const stage = event.type === "loading" ? "weights" : "tuning";
          this.#options.onLoadProgress?.({ stage, fraction: event.fraction });
        } else if (event.type === "compiling") {
          const { done, total } = event;
          this.#options.onLoadProgress?.({ stage: "kernels", fraction: done / total, done, total });
        } else if (event.type === "note") this.#options.onNote?.(event.line);
      });
      this.#learn(answer as Opened);
      this.#freeWhenIdle();
      return worker;
    } catch (error) {
      this.#drop(worker);
      throw error;
    } finally {
      this.#isStarting = false;
    }
  }

  async isThere(): Promise<boolean> {
    if (this.residence !== "unloaded") return true;
    const { model } = this.#model;
    return await isFile(model) || await hasIndex(model);
  }

  #learn({ info, adaptable, adapter, maxPixels, room }: Opened): void {
    this.adapter = adapter;
    // Of the device as it is without a limit on this model.
    const { deviceBytes = room.budgetBytes } = this.#info ?? {};
    this.#info = {
      ...info,
      modelPath: this.#options.modelPath,
      maxPixels,
      maxSteps: MAX_STEPS,
      maxFrames: info.animates ? info.maxFrames : Math.min(info.maxFrames, MAX_FRAMES),
      loraTargets: loraTargets(adaptable),
      ...(Number.isFinite(deviceBytes) && { deviceBytes }),
      isSoftware: room.target.schedule === "cpu",
    };
    this.#room = room;
    this.loras.components = adaptable;
  }

  generate(request: GenerateRequest, control: GenerationControl = {}): Promise<Frames> {
    return this.#inTurn(() => this.#generate(request, control));
  }

  async checkRoom(request: RoomRequest): Promise<void> {
    checkResultSize({ ...request, ...hiresSize(request, this.info) });
    for (const size of leastOf(request, this.info)) {
      const message = { type: "check", ...this.#model, room: this.#room!, size } as const;
      // The GPU's worker would answer after its work; where it has none, it has the model already.
      const worker = this.#waiting === 0 ? this.#worker : undefined;
      if (!worker || worker.isBroken) await this.#roomCheck.check(message);
      else {
        await this.#roomCheck.check(
          message,
          (question) => this.#inTurn(() => worker.ask(question)),
        );
      }
    }
  }

  async checkLoras(loras: readonly LoraUse[]): Promise<readonly LoraReport[]> {
    return (await this.loras.resolve(loras, true)).reports;
  }

  prepareLoras(loras: readonly LoraUse[]): Promise<readonly LoraReport[]> {
    // Files are read while others have their turn.
    const resolving = this.loras.resolve(loras, true);
    resolving.catch(() => {});
    return this.#inTurn(async () => {
      const { applied, reports } = await resolving;
      const worker = await this.#ready("prepare LoRAs");
      try {
        await worker.ask({ type: "prepare", loras: this.loras.messageFor(worker, applied) });
      } catch (error) {
        if (worker.isBroken) this.#drop(worker);
        throw error;
      }
      this.loras.pin(applied);
      return reports;
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopIdling();
    const reason = new DOMException("Cannot finish: the engine was closed", "AbortError");
    if (this.#worker) this.#drop(this.#worker, reason);
    this.#roomCheck.close();
    await this.#last;
    await Promise.all(this.#ending);
  }

  async #generate(
    request: GenerateRequest,
    { signal, onProgress, onFrame, onAudio, previews = 0, onPreview }: GenerationControl,
  ): Promise<Frames> {
    signal?.throwIfAborted();
    if (this.residence !== "loaded") onProgress?.(LOADING);
    const worker = await this.#ready("generate");
    const { applied } = await this.loras.resolve(request.loras ?? [], false);
    if (this.#isClosed) throw closed("generate");
    // Whoever aborted meanwhile would not be heard by the listener.
    signal?.throwIfAborted();
    checkResultSize({ ...request, ...hiresSize(request, this.info) });
    const flow = this.#flow = new FrameFlow();
    let overdue: ReturnType<typeof setTimeout> | undefined;
    const abort = () => {
      flow.cancel();
      if (!flow.isShared) worker.tell({ type: "cancel" });
      overdue = setTimeout(() => worker.terminate(signal?.reason), this.#waits.abortMs);
    };
    signal?.addEventListener("abort", abort);
    const clock = new ProgressClock();
    let audio: Waveform | undefined;
    let shown = 0;
    let tokenizing: ReturnType<typeof setTimeout> | undefined;
    const watchTokenizer = (isOver: boolean) => {
      clearTimeout(tokenizing);
      if (isOver) return;
      tokenizing = setTimeout(
        () => worker.terminate(slowTokenizer(this.#waits)),
        this.#waits.tokenizeMs,
      );
    };
    const make = async (
      { request: pass, size, drawnAt, result, previews, part }: Pass,
      take: (frame: Image) => void | Promise<void>,
    ): Promise<Answer<"generated">> => {
      signal?.throwIfAborted();
      const { width, height } = pass;
      const shownBefore = shown;
      const answer = await worker.ask({
        type: "generate",
        request: toPipelineRequest(pass, this.info),
        ...(drawnAt && { drawnAt }),
        size,
        result,
        loras: this.loras.messageFor(worker, applied),
        previews: onPreview ? previews : 0,
        flow: flow.shared,
      }, (event) => {
        if (event.type === "note") this.#options.onNote?.(event.line);
        if (event.type === "compiling") onProgress?.(compiling(event.done, event.total));
        if (event.type === "tokenizing") watchTokenizer(event.isOver);
        if (event.type === "progress") onProgress?.(clock.update(event.progress, part));
        if (event.type === "preview") {
          onPreview?.({ width, height, data: event.data }, shownBefore + event.index);
          shown++;
        }
        if (event.type === "audio") {
          if (onAudio) onAudio(event.audio);
          else audio = event.audio;
        }
        if (event.type !== "frame") return;
        const { byteLength } = event.data;
        const go = () => flow.take(byteLength);
        Promise.resolve(take({ ...size, data: event.data })).then(go, go);
      }) as Answer<"generated">;
      for (const cut of answer.cutPrompts) this.#options.onNote?.(describeCut(cut, this.info));
      return answer;
    };
    try {
      const frames: Uint8Array[] = [];
      const keep = ({ data }: Image) => void frames.push(data);
      const passes = passesOf(request, this.info, previews);
      const answers: Answer<"generated">[] = [];
      for (const [i, pass] of passes.entries()) {
        const isLast = i === passes.length - 1;
        const before = { frame: frames.pop(), latents: answers[i - 1]?.latents };
        const ready = startingFrom(pass, before, this.info);
        answers.push(await make(ready, isLast && onFrame ? onFrame : keep));
      }
      const { width, height } = request;
      const isHires = passes.length > 1;
      const drawnAt = isHires ? undefined : passes[0]!.drawnAt;
      const isEnlarged = isHires || request.enableUpscaling;
      const { size } = passes.at(-1)!;
      const isRgba = frames[0]?.length === 4 * size.width * size.height;
      return {
        ...size,
        ...(drawnAt ? { drawnAt } : isEnlarged && { drawnAt: { width, height } }),
        ...(request.enableUpscaling && this.info.upscaler && { upscaler: this.info.upscaler }),
        frames,
        ...(isRgba && { channels: 4 }),
        ...(audio && { audio }),
        fps: this.info.defaults.fps,
        timings: secondsOf(answers),
        peakBytes: Math.max(...answers.map(({ peakBytes }) => peakBytes)),
        cutPrompts: answers.flatMap(({ cutPrompts }) => cutPrompts),
      };
    } catch (error) {
      if (worker.isBroken) this.#drop(worker);
      const isCancelled = error instanceof DOMException && error.name === "AbortError";
      throw (isCancelled || worker.isBroken) && signal?.aborted ? signal.reason : error;
    } finally {
      clearTimeout(overdue);
      clearTimeout(tokenizing);
      signal?.removeEventListener("abort", abort);
    }
  }

  /** Runs after all that was asked for before, whatever became of it. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    this.#waiting++;
    this.#stopIdling();
    const result = this.#last.then(work).finally(() => {
      this.#waiting--;
      this.#freeWhenIdle();
    });
    this.#last = result.catch(() => {});
    return result;
  }

  /** Frees memory when nothing is asked for a while, and ends the worker after as long as it is kept alive. */
  #freeWhenIdle(): void {
    this.#stopIdling();
    if (this.#waiting > 0 || this.#isClosed) return;
    const { keepAliveMs } = this.#options;
    const timers = [setTimeout(() => this.#release(), this.#waits.releaseMs)];
    // An engine that nobody closes does not keep the process.
    timers.forEach((timer) => unrefTimer(timer));
    if (keepAliveMs !== undefined) timers.push(setTimeout(() => this.#unload(), keepAliveMs));
    this.#idle.push(...timers);
  }

  #stopIdling(): void {
    for (const timer of this.#idle.splice(0)) clearTimeout(timer);
  }

  /** Frees what a large request left on the device; the next one waits for that. */
  #release(): void {
    const worker = this.#worker;
    if (!worker || worker.isBroken) return;
    this.#last = worker.ask({ type: "release", bytes: KEPT_BYTES }).catch(() => {
      if (worker.isBroken) this.#drop(worker);
    });
  }

  #unload(): void {
    if (!this.#worker) return;
    this.#drop(this.#worker);
    this.#options.onNote?.(
      `Unloaded the model, which was idle for ${
        this.#options.keepAliveMs! / 1000
      } s; the next request loads it`,
    );
  }

  async #ready(purpose: string): Promise<EngineWorker> {
    if (this.#isClosed) throw closed(purpose);
    if (this.#worker?.isBroken) this.#drop(this.#worker);
    return this.#worker ?? await this.start();
  }

  /** Ends a worker that is of no use any more; the next generation starts another. */
  #drop(worker: EngineWorker, reason?: unknown): void {
    // A thread that is at work does not end before it pauses.
    this.#flow?.cancel();
    const ending = worker.close(reason);
    this.#ending.add(ending);
    ending.then(
      () => this.#ending.delete(ending),
      // Whoever closes the engine is told, too.
      (error: Error) => this.#options.onNote?.(error.message),
    );
    if (this.#worker === worker) this.#worker = undefined;
  }
}

/** Starts an engine, or has a lazy one look at its model; `signal` closes it, as a failure does. */
export async function startEngine(
  engine: WorkerEngine,
  { isLazy, signal }: Pick<EngineOptions, "isLazy" | "signal">,
): Promise<WorkerEngine> {
  const onAbort = () => void engine.close().catch(() => {});
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    if (isLazy) await engine.describe();
    else await engine.start();
    return engine;
  } catch (error) {
    await engine.close();
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener("abort", onAbort);
  }
}

type Opened = Answer<"opened">;

/** Seconds by stage, of all passes together. */
function secondsOf(answers: readonly Answer<"generated">[]): Record<string, number> {
  const seconds: Record<string, number> = {};
  for (const { timings } of answers) {
    for (const [stage, ms] of Object.entries(timings)) {
      seconds[stage] = (seconds[stage] ?? 0) + ms / 1000;
    }
  }
  return seconds;
}

function slowTokenizer({ tokenizeMs }: Waits): RangeError {
  return new RangeError(
    `Cannot encode the prompt: the tokenizer took longer than ${tokenizeMs / 1000} s; ` +
      "shorten the prompt, or use the tokenizer that the model came with",
  );
}

function closed(purpose: string): Error {
  return new Error(`Cannot ${purpose}: the engine is closed`);
}
