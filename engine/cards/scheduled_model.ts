import { LOADING } from "../reports.ts";
import type {
  Engine,
  Frames,
  GenerateRequest,
  GenerationControl,
  LoraReport,
  LoraUse,
  ModelInfo,
  Residence,
  RoomRequest,
} from "../types.ts";
import type { Card, CardEngine } from "./card.ts";
import type { Scheduler } from "./scheduler.ts";

/** One model on the cards that it may be on: each generation goes to the card where it ends first. */
export class ScheduledModel implements Engine {
  readonly #scheduler: Scheduler;
  readonly #name: string;
  readonly #on: readonly Card[];
  /** Resolves when it is open wherever it can be. */
  readonly settled: Promise<void>;
  #last: CardEngine | undefined;

  constructor(scheduler: Scheduler, name: string, on: readonly Card[], settled: Promise<void>) {
    this.#scheduler = scheduler;
    this.#name = name;
    this.#on = on;
    this.settled = settled;
  }

  get lanes(): number {
    // A card that is still loading may have the model in time.
    return Math.max(1, this.#on.filter(({ isLeftOut }) => !isLeftOut).length);
  }

  get info(): ModelInfo {
    return this.#first.info;
  }

  /** Where the model is, on the card where it is most. */
  get residence(): Residence {
    const all = this.#usable.map((card) => this.#engine(card).residence);
    return (["loaded", "loading"] as const).find((one) => all.includes(one)) ?? "unloaded";
  }

  generate(request: GenerateRequest, control: GenerationControl = {}): Promise<Frames> {
    const { signal, job, onFrame, onAudio, onProgress } = control;
    // A generation may be made twice: progress never falls, and what was given is not given again.
    let [hasGiven, fraction] = [false, 0];
    const watched: GenerationControl = {
      ...control,
      ...(onFrame && {
        onFrame: (frame) => {
          hasGiven = true;
          return onFrame(frame);
        },
      }),
      ...(onAudio && {
        onAudio: (audio) => {
          hasGiven = true;
          onAudio(audio);
        },
      }),
      ...(onProgress && {
        onProgress: (progress) => {
          fraction = Math.max(fraction, progress.fraction);
          onProgress({ ...progress, fraction });
        },
      }),
    };
    return this.#scheduler.run({
      model: this.#name,
      work: workOf(request, this.info),
      job,
      signal,
      canRepeat: () => !hasGiven,
      run: (card) => {
        const engine = this.#engine(card);
        if (engine.residence !== "loaded") watched.onProgress?.(LOADING);
        return card.run(this.#name, () => engine.generate(request, watched), signal);
      },
    });
  }

  /** See {@linkcode Engine.checkRoom}: on the card with the most memory. */
  checkRoom(request: RoomRequest): Promise<void> {
    const largest = this.#usable.toSorted((a, b) => b.plan.memoryBytes - a.plan.memoryBytes)[0];
    return (largest ? this.#engine(largest) : this.#first).checkRoom(request);
  }

  checkLoras(loras: readonly LoraUse[]): Promise<readonly LoraReport[]> {
    return this.#first.checkLoras(loras);
  }

  /** See {@linkcode Engine.prepareLoras}: on every card that has the model. */
  async prepareLoras(loras: readonly LoraUse[]): Promise<readonly LoraReport[]> {
    // Files are read while others have their turn.
    await this.checkLoras(loras);
    const prepare = (card: Card) => card.run(this.#name, (engine) => engine.prepareLoras(loras));
    const loaded = this.#usable.filter((card) => this.#engine(card).residence === "loaded");
    const [first = this.#usable[0] ?? this.#on[0]!, ...others] = loaded;
    const reports = await prepare(first);
    await Promise.all(others.map(prepare));
    return reports;
  }

  /** See {@linkcode Engine.isThere}: on any card. */
  async isThere(): Promise<boolean> {
    const all = await Promise.all(
      this.#usable.map(async (card) => await this.#engine(card).isThere?.() ?? true),
    );
    return all.length === 0 || all.includes(true);
  }

  /** See {@linkcode Engine.load}: on every card. */
  async load(): Promise<void> {
    await Promise.all(this.#usable.map((card) => card.load(this.#name)));
  }

  /** See {@linkcode Engine.unload}: from every card. */
  async unload(): Promise<void> {
    await Promise.all(this.#usable.map((card) => card.unload(this.#name)));
  }

  async close(): Promise<void> {
    this.#scheduler.close();
    await this.settled;
    await Promise.all(this.#on.map((card) => card.models.get(this.#name)?.close()));
  }

  get #usable(): Card[] {
    return this.#on.filter((card) => card.isUsable && card.models.has(this.#name));
  }

  /** One that was removed still says what it was. */
  get #first(): CardEngine {
    const card = this.#usable[0] ?? this.#on.find(({ models }) => models.has(this.#name));
    return this.#last = card ? this.#engine(card) : this.#last!;
  }

  #engine({ models }: Card): CardEngine {
    return models.get(this.#name)!;
  }
}

/** Pixels times steps. */
function workOf(request: GenerateRequest, { defaults }: ModelInfo): number {
  const { width, height, numFrames = defaults.numFrames, numInferenceSteps } = request;
  return width * height * numFrames * Math.max(1, numInferenceSteps);
}
