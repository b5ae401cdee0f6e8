/** How many connections are kept, and which of them go when there are too many. */

import { readFileSync } from "node:fs";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { hasRoom, Shares } from "../fair_share.ts";
import type { Log } from "../log.ts";

/** Bounds on the connections of a server. */
export interface ConnectionLimits {
  /** Most connections; follows from the limit of open files by default. */
  maxConnections?: number;
  /** How long the head of a request may take, in milliseconds. */
  headMs?: number;
  /** How long a connection may stay open between two requests, in milliseconds. */
  keepAliveMs?: number;
  /** How long an answer may wait for its reader, in milliseconds. */
  sendMs?: number;
  /** Bytes per second at which a reader has to take an answer that is large. */
  leastSendRate?: number;
}

/** What holds where nothing else was said. */
export const DEFAULT_LIMITS: Readonly<Required<Omit<ConnectionLimits, "maxConnections">>> = {
  headMs: 20_000,
  keepAliveMs: 15_000,
  sendMs: 60_000,
  leastSendRate: 32 * 1024,
};

/** Descriptors for everything but connections: records, models, fetches, FFmpeg. */
const RESERVED_DESCRIPTORS = 128;
/** A connection holds its socket, and a file that it sends or receives. */
const DESCRIPTORS_EACH = 2;
const MOST_CONNECTIONS = 1024;
const FEWEST_CONNECTIONS = 8;
/** Limit of open files where the system does not tell: no system that Deno runs on has less. */
const USUAL_DESCRIPTORS = 1024;
/** Most connections beyond the limit, while those that were closed for them are still going. */
const MOST_GOING = 32;
/** What node asks of the system. */
const MOST_BACKLOG = 511;
/** Most requests that a connection may send ahead of their answers. */
const MOST_ASKED = 16;
/** Share of the connections that one address may have, this machine's own aside. */
const SHARE_OF_ONE = 0.5;
/** Share of the connections that may be event streams. */
const SHARE_OF_STREAMS = 0.5;
/** Time between two lines of the log that say the same, in milliseconds. */
const TELL_MS = 60_000;

/** Most connections for so many open files: when their limit is met, Deno stops accepting for good. */
export function maxConnections(descriptors: number): number {
  const most = Math.floor((descriptors - RESERVED_DESCRIPTORS) / DESCRIPTORS_EACH);
  return Math.min(MOST_CONNECTIONS, Math.max(FEWEST_CONNECTIONS, most));
}

/** Most files that this process may have open. */
function descriptorLimit(): number {
  try {
    const limits = readFileSync("/proc/self/limits", "utf8");
    return Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? USUAL_DESCRIPTORS);
  } catch {
    return USUAL_DESCRIPTORS;
  }
}

interface Sending {
  readonly pending: number;
  readonly written: number;
  readonly since: number;
}

export class Connections {
  /** How many the system may hold ready: all of them are taken at once, before any is closed. */
  readonly backlog: number;
  readonly #max: number;
  readonly #sendMs: number;
  readonly #leastSendRate: number;
  readonly #log: Log;
  readonly #open = new Set<Socket>();
  /** Connections without a request, the one that has been so for the longest first. */
  readonly #idle = new Set<Socket>();
  /** Requests that are not answered yet. */
  readonly #asked = new WeakMap<Socket, number>();
  readonly #byAddress = new Map<string, number>();
  readonly #sending = new Map<Socket, Sending>();
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #streams = new Shares();
  #toldAt = -Infinity;

  /** Watches over the connections of a server. */
  constructor(server: Server, limits: ConnectionLimits, log: Log) {
    this.#max = limits.maxConnections ?? maxConnections(descriptorLimit());
    this.backlog = Math.min(this.#max, MOST_BACKLOG);
    this.#sendMs = limits.sendMs ?? DEFAULT_LIMITS.sendMs;
    this.#leastSendRate = limits.leastSendRate ?? DEFAULT_LIMITS.leastSendRate;
    this.#log = log;
    server.maxConnections = this.#max + Math.min(this.#max, MOST_GOING);
    server.on("connection", (socket: Socket) => this.#admit(socket));
    // Before whoever answers, so that it can ask about this request.
    server.prependListener("request", ({ socket }: IncomingMessage, answer: ServerResponse) => {
      this.#idle.delete(socket);
      this.#asked.set(socket, this.#askedOf(socket) + 1);
      answer.once("close", () => {
        const left = this.#askedOf(socket) - 1;
        this.#asked.set(socket, left);
        if (left === 0 && this.#open.has(socket)) this.#idle.add(socket);
      });
    });
    this.#timer = setInterval(() => this.#closeDeafReaders(), Math.min(5000, this.#sendMs / 4));
  }

  /** False when a connection has asked too much at once: what is answered waits in memory for what was asked before. */
  mayAsk(socket: Socket): boolean {
    return this.#askedOf(socket) <= MOST_ASKED;
  }

  /** Takes a place for an event stream, which may stay open for hours; false when none is left for that client. */
  openStream(answer: ServerResponse, client: string): boolean {
    const { all } = this.#streams;
    if (!hasRoom(this.#streams.of(client), all, this.#max * SHARE_OF_STREAMS)) return false;
    this.#streams.add(client, 1);
    answer.once("close", () => this.#streams.add(client, -1));
    return true;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #askedOf(socket: Socket): number {
    return this.#asked.get(socket) ?? 0;
  }

  #admit(socket: Socket): void {
    const address = socket.remoteAddress ?? "";
    const held = this.#byAddress.get(address) ?? 0;
    const isGreedy = !isOfThisMachine(address) && held >= this.#max * SHARE_OF_ONE;
    if (isGreedy || !this.#makeRoom()) {
      socket.destroy();
      return this.#tellFull(isGreedy ? address : undefined);
    }
    // An end that died without a word is noticed within minutes.
    socket.setKeepAlive(true, this.#sendMs);
    this.#open.add(socket);
    this.#idle.add(socket);
    this.#byAddress.set(address, held + 1);
    socket.once("close", () => {
      this.#open.delete(socket);
      this.#idle.delete(socket);
      this.#sending.delete(socket);
      const left = this.#byAddress.get(address)! - 1;
      if (left > 0) this.#byAddress.set(address, left);
      else this.#byAddress.delete(address);
    });
  }

  /** Whether one more fits, if need be in place of one that asks for nothing. */
  #makeRoom(): boolean {
    if (this.#open.size < this.#max) return true;
    const [longest] = this.#idle;
    if (!longest) return false;
    this.#idle.delete(longest);
    this.#open.delete(longest);
    longest.destroy();
    return true;
  }

  #closeDeafReaders(): void {
    const now = performance.now();
    for (const socket of this.#open) {
      const { writableLength: pending, bytesWritten: written } = socket;
      const before = this.#sending.get(socket);
      if (pending === 0) this.#sending.delete(socket);
      else if (!before || written !== before.written || pending < before.pending) {
        this.#sending.set(socket, { pending, written, since: now });
      } else if (now - before.since > this.#sendMs + pending / this.#leastSendRate * 1000) {
        socket.destroy();
      }
    }
  }

  #tellFull(address: string | undefined): void {
    const now = performance.now();
    if (now - this.#toldAt < TELL_MS) return;
    this.#toldAt = now;
    const why = address === undefined
      ? `${this.#max} are open, the most that this server keeps`
      : `${address} has half of the ${this.#max} that this server keeps`;
    this.#log(`Cannot take another connection: ${why}`, { level: "warning" });
  }
}

function isOfThisMachine(address: string): boolean {
  return /^(?:::ffff:)?127\.|^::1$/.test(address);
}
