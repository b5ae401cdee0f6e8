/**
 * Telling a client's server that a job has ended.
 *
 * Source: Standard Webhooks 1.0.
 */

import { Slots } from "../../media/isolated/slots.ts";
import { openRequest, parseRemoteUrl, RemoteError } from "../network/remote.ts";
import { Shares } from "../fair_share.ts";
import type { Log } from "../log.ts";
import { createHmac } from "node:crypto";

interface WebhookOptions {
  readonly secret: Uint8Array;
  /** Whether addresses of private networks are allowed, this machine's among them. */
  readonly allowPrivate: boolean;
  /** Told of webhooks that nobody takes. */
  readonly log: Log;
  /** Pauses before each further attempt, in milliseconds; {@link PAUSES_MS} by default. */
  readonly pausesMs?: readonly number[];
}

/** Where a message goes. */
interface WebhookTarget {
  /** Of scheme http or https, without credentials. */
  readonly url: string;
  /** Whose job it is about; clients do not wait for each other. */
  readonly client: string;
}

interface WebhookMessage {
  /** Type of the event, such as `job.completed`. */
  readonly type: string;
  /** What happened, a JSON value. */
  readonly data: unknown;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
/** After the last one, five hours after the first, it is given up. */
const PAUSES_MS: readonly number[] = [
  5 * SECOND,
  30 * SECOND,
  2 * MINUTE,
  10 * MINUTE,
  60 * MINUTE,
  240 * MINUTE,
];
/** How long a receiver may take, in milliseconds. */
const ANSWER_MS = 15_000;
/** Messages of one client that are not taken yet, and of all. */
const MAX_OF_CLIENT = 1000;
const MAX_OF_ALL = 10_000;
/** Attempts at once. */
const slots = new Slots({ count: 8, perClient: 4 });
/** Attempts at once for one client and host: one that is silent leaves room for the client's others. */
const hosts = new Slots({ count: Infinity, perClient: 2 });

/** Sends webhooks, again and again until somebody takes them. */
export class Webhooks {
  readonly #options: WebhookOptions;
  readonly #closing = new AbortController();
  /** Messages that are not taken yet, by client. */
  readonly #open = new Shares();

  constructor(options: WebhookOptions) {
    this.#options = options;
  }

  /** Resolves when a message was taken, or given up. `read` gives it when it is sent, maybe hours later, or nothing when it is of no use. */
  async send(
    id: string,
    { url, client }: WebhookTarget,
    read: () => Promise<WebhookMessage | undefined>,
  ): Promise<boolean> {
    const own = this.#open.of(client);
    const { all } = this.#open;
    if (own >= MAX_OF_CLIENT || all >= MAX_OF_ALL) {
      const which = own >= MAX_OF_CLIENT ? `${own} of its client` : `${all}`;
      return this.#giveUp(id, `${which} are not taken yet`);
    }
    this.#open.add(client, 1);
    try {
      return await this.#sendAgain(id, { url, client }, read);
    } finally {
      this.#open.add(client, -1);
    }
  }

  async #sendAgain(
    id: string,
    { url, client }: WebhookTarget,
    read: () => Promise<WebhookMessage | undefined>,
  ): Promise<boolean> {
    const { pausesMs = PAUSES_MS } = this.#options;
    const { signal } = this.#closing;
    const { host } = new URL(url);
    const post = async () => {
      const message = await read();
      return message && await this.#post(id, url, message);
    };
    for (let attempt = 0;; attempt++) {
      let why: string;
      try {
        const status = await hosts.run(
          () => slots.run(post, { client, signal }),
          { client: `${client} ${host}`, signal },
        );
        if (status === undefined) return false;
        if (status >= 200 && status < 300) return true;
        why = `its server answered with status ${status}`;
        // The receiver wants no more of them.
        if (status === 410) attempt = Infinity;
      } catch (error) {
        if (signal.aborted) return false;
        why = error instanceof RemoteError ? error.message : "it cannot be sent";
        if (error instanceof RemoteError && !error.isTransient) attempt = Infinity;
      }
      const pause = pausesMs[attempt];
      if (pause === undefined) return this.#giveUp(id, why);
      if (!await this.#wait(pause)) return false;
    }
  }

  /** Stops; what was not taken yet is not sent any more. */
  close(): void {
    this.#closing.abort();
  }

  #giveUp(id: string, why: string): false {
    this.#options.log(`Gave up the webhook ${id}: ${why}`, { level: "warning" });
    return false;
  }

  async #post(id: string, url: string, { type, data }: WebhookMessage): Promise<number> {
    const now = new Date();
    const timestamp = Math.floor(now.getTime() / 1000);
    const body = JSON.stringify({ type, timestamp: now.toISOString(), data });
    const { secret, allowPrivate } = this.#options;
    const late = AbortSignal.timeout(ANSWER_MS);
    // Redirects are not followed: the standard takes them for failures.
    const response = await openRequest(parseRemoteUrl(url), {
      allowPrivate,
      method: "POST",
      body,
      headers: {
        "content-type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": String(timestamp),
        "webhook-signature": signature(secret, { id, timestamp, body }),
      },
    }, AbortSignal.any([late, this.#closing.signal])).catch((error) => {
      if (!late.aborted) throw error;
      throw new RemoteError("its server did not answer in time", { isTransient: true });
    });
    response.destroy();
    return response.statusCode ?? 0;
  }

  /** Resolves with whether there is still somebody to go on. */
  #wait(ms: number): Promise<boolean> {
    const { signal } = this.#closing;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const stop = () => resolve(false);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    const timer = setTimeout(() => resolve(true), ms);
    return promise.finally(() => {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
    });
  }
}

/** How secrets are written. */
const PREFIX = "whsec_";
/** Fewest and most bytes of a secret, as the standard has it. */
const LEAST = 24;
const MOST = 64;

/**
 * Reads a secret.
 *
 * @param text `whsec_` with 24 to 64 bytes in base64
 * @returns the bytes
 * @throws {TypeError} for anything else; the message does not repeat it
 */
export function readSecret(text: string): Uint8Array<ArrayBuffer> {
  let bytes: Uint8Array<ArrayBuffer> | undefined;
  try {
    if (text.startsWith(PREFIX)) bytes = Uint8Array.fromBase64(text.slice(PREFIX.length));
  } catch {
    // It is no base64.
  }
  if (bytes && bytes.length >= LEAST && bytes.length <= MOST) return bytes;
  throw new TypeError(
    `Cannot use the webhook secret: it must be ${PREFIX} with ${LEAST} to ${MOST} bytes in base64, ` +
      `such as ${PREFIX}$(openssl rand -base64 32)`,
  );
}

/** The header `webhook-signature` of a message; its time is in Unix seconds. */
export function signature(
  secret: Uint8Array,
  { id, timestamp, body }: { id: string; timestamp: number; body: string },
): string {
  const signed = createHmac("sha256", secret).update(`${id}.${timestamp}.${body}`).digest("base64");
  return `v1,${signed}`;
}
