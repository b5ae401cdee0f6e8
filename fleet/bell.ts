/**
 * What the members of a fleet tell each other at once. News may be lost while the database is away, so
 * whoever listens looks for itself when the connection is back, and from time to time.
 */

import { connect } from "./database.ts";

/** Pause before it is tried again to listen, in milliseconds. */
const PAUSE_MS = 300;

/**
 * Where news come from: `denoise_jobs` tells of jobs (`<id> <status>`), `denoise_live` how far they are,
 * `denoise_calls` of questions and answers, `denoise_fleet` that a member or a setting has changed.
 */
export type Channel = "denoise_jobs" | "denoise_live" | "denoise_calls" | "denoise_fleet";

/** One connection that listens, for as long as the process lives. */
export class Bell {
  readonly #url: string;
  readonly #name: string;
  readonly #listeners = new Map<Channel, ((news: string) => void)[]>();
  readonly #upListeners: (() => void)[] = [];
  readonly #stop = Promise.withResolvers<void>();
  #isUp = false;
  #isClosed = false;
  #running: Promise<void> | undefined;

  /**
   * @param name of the process, for those who look at the connections
   */
  constructor(url: string, name: string) {
    this.#url = url;
    this.#name = name;
  }

  /** Whether the connection listens now. */
  get isUp(): boolean {
    return this.#isUp;
  }

  /** Listens to a channel; to be called before {@link Bell.start}. */
  on(channel: Channel, listener: (news: string) => void): void {
    this.#listeners.set(channel, [...this.#listeners.get(channel) ?? [], listener]);
  }

  /**
   * Listens to the connection.
   *
   * @param listener called when it is there, and whenever it is there again
   */
  onUp(listener: () => void): void {
    this.#upListeners.push(listener);
  }

  /** Begins. */
  start(): void {
    this.#running ??= this.#run();
  }

  /** Ends. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stop.resolve();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#isClosed) {
      // The client's own way to listen again gives up where the database needs a while.
      const gone = Promise.withResolvers<void>();
      const sql = await connect(this.#url, {
        max: 1,
        name: `${this.#name} bell`,
        onclose: gone.resolve,
        onnotify: (channel, news) => {
          for (const listener of this.#listeners.get(channel as Channel) ?? []) listener(news);
        },
      });
      try {
        for (const channel of this.#listeners.keys()) {
          await Promise.race([sql.unsafe(`LISTEN ${channel}`), this.#stop.promise]);
        }
        this.#isUp = true;
        for (const listener of this.#upListeners) listener();
        await Promise.race([gone.promise, this.#stop.promise]);
      } catch {
        // The database is away.
      }
      this.#isUp = false;
      await sql.end({ timeout: 0 }).catch(() => {});
      if (this.#isClosed) return;
      const pause = Promise.withResolvers<void>();
      const timer = setTimeout(pause.resolve, PAUSE_MS);
      await Promise.race([pause.promise, this.#stop.promise]);
      clearTimeout(timer);
    }
  }
}
