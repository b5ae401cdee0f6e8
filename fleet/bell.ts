/**
 * What the members of a fleet tell each other at once. News may be lost while the database is away, so listeners look
 * for themselves when the connection is back, and from time to time.
 */

import { connect } from "./database.ts";
import { pause } from "./repeat.ts";

/** Pause before it is tried again to listen, in milliseconds. */
const PAUSE_MS = 300;

/**
 * Where news come from: `denoise_jobs` tells of jobs (`<id> <status>`), `denoise_live` how far they are,
 * `denoise_calls` of questions and answers, `denoise_fleet` that a member or a setting has changed.
 */
type Channel = "denoise_jobs" | "denoise_live" | "denoise_calls" | "denoise_fleet";

/** One connection that listens, for as long as the process lives. */
export class Bell {
  readonly #url: string;
  readonly #name: string;
  readonly #listeners = new Map<string, ((news: string) => void)[]>();
  readonly #upListeners: (() => void)[] = [];
  readonly #closing = new AbortController();
  isUp = false;
  #running: Promise<void> | undefined;

  constructor(url: string, name: string) {
    this.#url = url;
    this.#name = name;
  }

  /** Listens to a channel; to be called before {@link Bell.start}. */
  on(channel: Channel, listener: (news: string) => void): void {
    this.#listeners.set(channel, [...this.#listeners.get(channel) ?? [], listener]);
  }

  /** Calls a listener whenever the connection is there, or there again. */
  onUp(listener: () => void): void {
    this.#upListeners.push(listener);
  }

  start(): void {
    this.#running ??= this.#run();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    const closed = new Promise<void>((resolve) =>
      signal.addEventListener("abort", () => resolve())
    );
    // The client's own way to listen again gives up where the database needs a while.
    do {
      const gone = Promise.withResolvers<void>();
      const sql = connect(this.#url, {
        max: 1,
        name: `${this.#name} bell`,
        onclose: gone.resolve,
        onnotify: (channel, news) => {
          for (const listener of this.#listeners.get(channel) ?? []) listener(news);
        },
      });
      try {
        for (const channel of this.#listeners.keys()) {
          await Promise.race([sql.unsafe(`LISTEN ${channel}`), closed]);
        }
        this.isUp = true;
        for (const listener of this.#upListeners) listener();
        await Promise.race([gone.promise, closed]);
      } catch {
        // The database is away.
      }
      this.isUp = false;
      await sql.end({ timeout: 0 }).catch(() => {});
    } while (await pause(PAUSE_MS, signal));
  }
}
