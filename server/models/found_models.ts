/** Models of this machine that the server was not told of: they come and go while it runs. */

import { CATALOGUE } from "../../hub/catalogue.ts";
import { nearNames } from "../../hub/near_names.ts";
import type { Steering } from "../../hub/steering_parts.ts";
import { EngineState, type FurtherModels, type ServedModel } from "../served_models.ts";
import type { Engine } from "../../engine/types.ts";
import type { Log } from "../log.ts";
import type { FoundSource, FoundSteering } from "../start_options.ts";

/** How often it is looked for them at most, in milliseconds. */
const LOOK_MS = 1000;
/** How long a list waits for models that are being opened, in milliseconds. */
const SETTLE_MS = 2000;

interface Found {
  readonly source: FoundSource;
  readonly served: ServedModel;
}

interface FoundOptions {
  readonly find: () => Promise<readonly FoundSource[]>;
  readonly serve: (source: FoundSource, engine: EngineState) => ServedModel;
  /** Names and paths of the models that the server was told of. */
  readonly asked: readonly string[];
  /** The first model: the others wait for it. */
  readonly first: EngineState;
  readonly log: Log;
}

export class FoundModels implements FurtherModels {
  readonly #options: FoundOptions;
  readonly #models = new Map<string, Found>();
  readonly #stop = new AbortController();
  #opening: Promise<void> = Promise.resolve();
  #look: Promise<void> = Promise.resolve();
  #lookedAt = -Infinity;

  constructor(options: FoundOptions) {
    this.#options = options;
  }

  get all(): ServedModel[] {
    return [...this.#models.values()].map(({ served }) => served)
      .filter(({ engine }) => engine.status !== "failed");
  }

  /** Looks what there is now; `isNews` says that something has changed. */
  refresh(isNews = false): Promise<void> {
    if (!isNews && performance.now() - this.#lookedAt < LOOK_MS) return this.#look;
    this.#lookedAt = performance.now();
    return this.#look = this.#look.then(() => this.#lookAround());
  }

  async settle(): Promise<void> {
    await this.refresh();
    const all = Promise.all(this.all.map(({ engine }) => engine.settled));
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, SETTLE_MS);
    await Promise.race([all, promise]);
    clearTimeout(timer);
  }

  /** Lets go of models by their names, when what they do is done. */
  async remove(names: readonly string[]): Promise<void> {
    const gone = [...this.#models.values()].filter(({ served }) =>
      [served.name, ...served.aliases ?? []].some((name) => names.includes(name))
    );
    for (const { served } of gone) this.#models.delete(served.name);
    await Promise.all(gone.map(({ source }) => source.close()));
  }

  /** Opens all of them again, with parts that have come; requests wait for that. */
  reload(): Promise<void> {
    return this.#look = this.#look.then(() => this.#lookAround(true));
  }

  /**
   * Opens a model again with other ControlNets and IP-Adapters; requests for it wait. Changes run one after the other:
   * `choose` names the parts, and `show` makes the answer before the next change.
   *
   * @returns nothing where the model is gone
   * @throws {RangeError} for what it does not take; it is as before then
   */
  steer<T>(
    name: string,
    choose: (steering: FoundSteering) => Promise<Steering>,
    show: (served: ServedModel, engine: Engine) => T,
  ): Promise<T | undefined> {
    return this.#inTurn(async () => {
      const steering = this.#models.get(name)?.source.steering;
      if (!steering) return undefined;
      const wanted = await choose(steering);
      const found = this.#models.get(name);
      if (!found) return undefined;
      const undo = steering.choose(wanted);
      let refusal: Error | undefined;
      const opened = this.#openAgain(found).catch((error) => {
        refusal = error;
        undo();
        return this.#openAgain(found);
      });
      found.served.engine.reopen(opened);
      const engine = await opened.catch(() => undefined);
      if (!this.#isThere(found)) return undefined;
      if (refusal) throw new RangeError(refusal.message, { cause: refusal });
      return engine && show(found.served, engine);
    });
  }

  advise(name: string): string | undefined {
    const known = [...this.#names, ...CATALOGUE.map((entry) => entry.name)];
    const wanted = name.toLowerCase();
    const near = nearNames(wanted, known);
    const [first] = near;
    if (first === undefined) return undefined;
    if (this.#names.includes(first)) return `did you mean ${first}?`;
    const shown = near.slice(0, 3).join(", ");
    const what = first === wanted ? first : `it may be ${shown}, which`;
    return `${what} can be fetched: denoise pull ${first}, or POST /v1/pulls`;
  }

  /** Ends what is being opened. The models are freed with what opened them. */
  close(): void {
    this.#stop.abort();
  }

  get #names(): string[] {
    return [...this.#options.asked, ...this.all.map(({ name }) => name)];
  }

  async #lookAround(again = false): Promise<void> {
    const { find, asked, serve, log } = this.#options;
    let sources: readonly FoundSource[];
    try {
      sources = (await find()).filter(({ name, path, aliases }) =>
        ![name, path, ...aliases].some((each) => asked.includes(each))
      );
    } catch (error) {
      return log(`Cannot look for models: ${(error as Error).message}`, { level: "error" });
    }
    for (const { source, served } of this.#models.values()) {
      const now = sources.find(({ name }) => name === served.name);
      // One that could not be opened may have got what it lacked.
      const isOver = !now || served.engine.status === "failed" && now.version !== source.version;
      if (isOver) void this.remove([served.name]);
    }
    for (const source of sources) {
      const { name } = source;
      const before = this.#models.get(name);
      if (before && !again) continue;
      const opened = Promise.withResolvers<Engine>();
      const engine = before?.served.engine ?? new EngineState(opened.promise);
      const found = { source, served: serve(source, engine) };
      this.#models.set(name, found);
      if (before) engine.reopen(opened.promise);
      opened.resolve(this.#inTurn(async () => {
        // Cards know models by their names.
        if (before && this.#isThere(found)) await before.source.close();
        return await this.#open(found);
      }));
    }
  }

  /** Models are opened one after the other. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#opening.then(work);
    this.#opening = done.then(() => {}, () => {});
    return done;
  }

  /** Whether a model is served still; what opens it may be another by now. */
  #isThere({ served: { name, engine } }: Found): boolean {
    return this.#models.get(name)?.served.engine === engine;
  }

  async #openAgain(found: Found): Promise<Engine> {
    await found.source.close();
    return await this.#open(found);
  }

  async #open(found: Found): Promise<Engine> {
    const { source: { name, open, close }, served } = found;
    const { first, log } = this.#options;
    const { signal } = this.#stop;
    try {
      await first.settled;
      signal.throwIfAborted();
      if (first.failure) throw first.failure;
      if (!this.#isThere(found)) throw gone(name);
      const engine = await open((...progress) => served.engine.note(...progress), signal);
      if (!this.#isThere(found)) {
        await close();
        throw gone(name);
      }
      log(`Serves ${name}, too`);
      return engine;
    } catch (error) {
      if (!signal.aborted && !first.failure && this.#isThere(found)) {
        log(`Cannot serve ${name}: ${(error as Error).message}`, { level: "warning" });
      }
      throw error;
    }
  }
}

function gone(name: string): Error {
  return new Error(`Cannot open ${name}: it was removed`);
}
