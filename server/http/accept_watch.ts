/**
 * Noticing that a server has become deaf, and letting it listen again.
 *
 * When the process has run out of descriptors, Deno's listener fails without an event and accepts
 * nothing from then on, while the system goes on taking connections for it.
 */

import { connect, type Server } from "node:net";
import type { Log } from "../log.ts";

interface AcceptWatchOptions {
  readonly address: string;
  readonly port: number;
  readonly backlog: number;
  readonly log: Log;
  /** Time between two looks, in milliseconds; 10 s by default. */
  readonly everyMs?: number;
}

/** Loopback address by the wildcard that covers it. */
const WILDCARDS: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };
/** How long an accepted connection may take to show, in milliseconds. */
const NOTICE_MS = 2000;

/** Looks from time to time whether a server still accepts: where nobody came since, by a connection of its own. */
export function watchAccepting(server: Server, options: AcceptWatchOptions): () => void {
  const { address, port, backlog, log, everyMs = 10_000 } = options;
  let seen = 0;
  let before = 0;
  let isLooking = false;
  let isStopped = false;
  const onConnection = () => seen++;
  const onError = ({ message }: Error) =>
    log(`Cannot listen on ${address}:${port}: ${message}; trying again`, { level: "error" });
  const listen = () => server.listen({ host: address, port, backlog });
  const look = async () => {
    if (isLooking) return;
    if (!server.listening) return void listen();
    const hadSome = seen !== before;
    before = seen;
    if (hadSome) return;
    isLooking = true;
    const isReached = await reach(address, port, Math.min(NOTICE_MS, everyMs));
    isLooking = false;
    const isAlive = isReached !== false || seen !== before;
    before = seen;
    if (isAlive || isStopped) return;
    log(`Listening anew on ${address}:${port}: nothing was accepted any more`, {
      level: "warning",
    });
    // Connections that are open stay so; it is the listener alone that is replaced.
    server.close();
    listen();
  };
  server.on("connection", onConnection).on("error", onError);
  const timer = setInterval(look, everyMs);
  return () => {
    isStopped = true;
    clearInterval(timer);
    server.off("connection", onConnection).off("error", onError);
  };
}

/**
 * Whether the other side takes notice of a connection: it closes at once where a server is full.
 * False where it is silent, which an idle server is too; undefined where none could be made.
 */
async function reach(host: string, port: number, noticeMs: number): Promise<boolean | undefined> {
  const outcome = Promise.withResolvers<boolean | undefined>();
  // A wildcard is no address that everybody can connect to.
  const socket = connect({ host: WILDCARDS[host] ?? host, port });
  socket.once("close", () => outcome.resolve(true));
  socket.once("error", (error) => {
    const isClosed = "code" in error && error.code === "ECONNRESET";
    // Without a descriptor for this one there is none for anybody: later, then.
    outcome.resolve(isClosed ? true : undefined);
  });
  const timer = setTimeout(() => outcome.resolve(false), noticeMs);
  try {
    return await outcome.promise;
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}
