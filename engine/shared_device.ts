/**
 * Several models that take turns on one device. One of them works at a time, and what it needs is free then: those that
 * were used the longest ago leave first, and never in the middle of their work.
 */
import { LOADING } from "./progress.ts";
import type {
  Engine,
  Frames,
  GenerateRequest,
  GenerationControl,
  LoraReport,
  LoraUse,
  ModelInfo,
  RoomRequest,
} from "./types.ts";

/** Share of the memory in which models that are not at work may stay. */
const RESTING_SHARE = 1 / 4;

/** Where a model is. */
export type Residence = "loaded" | "loading" | "unloaded";

/** A device that several models use in turns. */
export class SharedDevice {
  /** The one that was used last is at the end. */
  readonly #members: SharedEngine[] = [];
  readonly #onNote: (line: string) => void;
  #last: Promise<unknown> = Promise.resolve();

  /** @param onNote takes lines for the log, such as that a model has left */
  constructor(onNote: (line: string) => void = () => {}) {
    this.#onNote = onNote;
  }

  /**
   * Lets an engine take turns with the others.
   *
   * @param engine whose model may be loaded or not; nobody else uses it from then on
   */
  add(engine: Engine, name: string): SharedEngine {
    const resting = this.#restingBytes(engine.info);
    // What rests beside it and what it takes are never more than there is together.
    if (resting > 0) engine.limitMemory(engine.info.deviceBytes! - resting);
    const member = new SharedEngine(engine, name, (own, work) => this.#inTurn(own, work));
    this.#members.push(member);
    return member;
  }

  /** Runs when all that was asked for before is done; the device has room for the model then. */
  #inTurn<T>(
    member: SharedEngine,
    work: (makeRoom: () => Promise<void>) => Promise<T>,
  ): Promise<T> {
    const result = this.#last.then(() => work(() => this.#makeRoom(member)));
    this.#last = result.catch(() => {});
    return result;
  }

  async #makeRoom(member: SharedEngine): Promise<void> {
    this.#members.splice(this.#members.indexOf(member), 1);
    const others = this.#members.filter(({ isLoaded }) => isLoaded);
    this.#members.push(member);
    const room = this.#restingBytes(member.info);
    let bytes = others.reduce((sum, { info }) => sum + weightsOf(info), 0);
    for (const other of others) {
      if (bytes <= room) return;
      bytes -= weightsOf(other.info);
      await other.leave();
      this.#onNote(`Unloaded ${other.name}: ${member.name} takes its place`);
    }
  }

  /** How much of the others' weights may stay beside a model: nothing beside a large one, or where nobody knows. */
  #restingBytes(info: ModelInfo): number {
    const { deviceBytes = 0 } = info;
    const resting = deviceBytes * RESTING_SHARE;
    return weightsOf(info) <= resting ? resting : 0;
  }
}

function weightsOf({ weightBytes = Infinity }: ModelInfo): number {
  return weightBytes;
}

/** An engine that takes turns with others. */
export class SharedEngine implements Engine {
  /** Name of the model. */
  readonly name: string;
  readonly #engine: Engine;
  readonly #inTurn: <T>(
    own: SharedEngine,
    work: (makeRoom: () => Promise<void>) => Promise<T>,
  ) => Promise<T>;
  #isLoading = false;

  /** Made by {@linkcode SharedDevice.add}. */
  constructor(
    engine: Engine,
    name: string,
    inTurn: <T>(
      own: SharedEngine,
      work: (makeRoom: () => Promise<void>) => Promise<T>,
    ) => Promise<T>,
  ) {
    this.#engine = engine;
    this.name = name;
    this.#inTurn = inTurn;
  }

  /** @inheritdoc */
  get info(): ModelInfo {
    return this.#engine.info;
  }

  /** @inheritdoc */
  get adapter(): string {
    return this.#engine.adapter ?? "";
  }

  /** @inheritdoc */
  get isLoaded(): boolean {
    return this.#engine.isLoaded;
  }

  /** Where the model is. */
  get residence(): Residence {
    return this.isLoaded ? "loaded" : this.#isLoading ? "loading" : "unloaded";
  }

  /** @inheritdoc */
  generate(request: GenerateRequest, control: GenerationControl = {}): Promise<Frames> {
    if (!this.isLoaded) control.onProgress?.(LOADING);
    return this.#loaded(() => this.#engine.generate(request, control), control.signal);
  }

  /** @inheritdoc */
  prepareLoras(loras: readonly LoraUse[]): Promise<readonly LoraReport[]> {
    return this.#loaded(() => this.#engine.prepareLoras(loras));
  }

  /** @inheritdoc */
  load(): Promise<void> {
    return this.#loaded(() => Promise.resolve());
  }

  /** @inheritdoc */
  unload(): Promise<void> {
    return this.#inTurn(this, () => this.#engine.unload());
  }

  /** Leaves the device in another's turn. */
  leave(): Promise<void> {
    return this.#engine.unload();
  }

  /** @inheritdoc */
  limitMemory(bytes: number): void {
    this.#engine.limitMemory(bytes);
  }

  /** @inheritdoc */
  checkRoom(request: RoomRequest): Promise<void> {
    return this.#engine.checkRoom(request);
  }

  /** @inheritdoc */
  checkLoras(loras: readonly LoraUse[]): Promise<readonly LoraReport[]> {
    return this.#engine.checkLoras(loras);
  }

  /** @inheritdoc */
  close(): Promise<void> {
    return this.#engine.close();
  }

  #loaded<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.#inTurn(this, async (makeRoom) => {
      signal?.throwIfAborted();
      this.#isLoading = true;
      try {
        await makeRoom();
        await this.#engine.load();
      } finally {
        this.#isLoading = false;
      }
      return await work();
    });
  }
}
