/** Event streams: their places, and what they have still to say. */

import type { SSEStreamingApi } from "hono/streaming";
import type { Context } from "hono";
import { ApiError } from "../contract/errors.ts";
import type { AppEnv } from "../services.ts";

/** How often a stream without news says that it lives, in milliseconds. */
const HEARTBEAT_MS = 10_000;

/** News on their way to one client, in the order in which they came. */
export class News<T> {
  readonly #pending: T[] = [];
  #hasEnded = false;
  #wake = () => {};

  /** Adds news in place of the one before, if that `replaces` it and was not sent: a slow client must not fill the memory. */
  push(item: T, replaces: (last: T) => boolean = () => false): void {
    const last = this.#pending.at(-1);
    if (last !== undefined && replaces(last)) this.#pending.pop();
    this.#pending.push(item);
    this.#wake();
  }

  end(): void {
    this.#hasEnded = true;
    this.#wake();
  }

  /** Sends all news up to the end, or until the client has gone; calls `onQuiet` when nothing has been new for a while. */
  async sendTo(
    stream: SSEStreamingApi,
    send: (item: T) => Promise<void>,
    onQuiet: () => Promise<void> = () => Promise.resolve(),
  ): Promise<void> {
    stream.onAbort(() => this.end());
    while (!stream.aborted) {
      const item = this.#pending.shift();
      if (item !== undefined) await send(item);
      else if (this.#hasEnded) return;
      else if (!await this.#next()) {
        await stream.write(": still at work\n\n");
        await onQuiet();
      }
    }
  }

  /** Resolves with whether something came before the next heartbeat. */
  async #next(): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), HEARTBEAT_MS);
    this.#wake = () => resolve(true);
    const isNew = await promise;
    clearTimeout(timer);
    return isNew;
  }
}

/** Takes a place for an answer until its connection closes. @throws {ApiError} 503 when there is none left */
export function openStream(c: Context<AppEnv>, what: string): void {
  if (c.env?.openStream?.(c.get("client")) !== false) return;
  throw new ApiError(503, `Cannot open ${what}: too many streams are open, or too many of yours`, {
    code: "too_many_streams",
    headers: { "retry-after": "10" },
  });
}
