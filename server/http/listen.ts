/**
 * HTTP on a port, through node's server: `Deno.serve` does not notice that a client left once its
 * body came in another packet than its headers, and would let its image be computed to the end.
 */

import type { Server, ServerResponse } from "node:http";
import { createAdaptorServer, type HttpBindings } from "@hono/node-server";
import { watchAccepting } from "./accept_watch.ts";
import { type ConnectionLimits, Connections, DEFAULT_LIMITS } from "./connections.ts";
import { BODY_DEADLINE_MS } from "./body.ts";
import type { App } from "../services.ts";
import type { Log } from "../log.ts";
import { DEFAULT_SETTINGS, type ServerSettings } from "../settings.ts";

export interface ListenOptions
  extends ConnectionLimits, Partial<Pick<ServerSettings, "host" | "port" | "strictPorts">> {
  /** Time between two looks whether it still accepts, in milliseconds; 10 s by default. */
  watchMs?: number;
  /** Is told of a port that is not the one asked for, and of too many connections. */
  log: Log;
}

export interface Listener {
  /** Where clients on this machine reach it, without a slash at the end. */
  readonly url: string;
  readonly port: number;
  /** Takes no more requests, and waits this many milliseconds for answers under way. */
  close(graceMs: number): Promise<void>;
}

/** Bytes of a body that wait to be read: pieces of a byte each are handed on together, and hold up everybody meanwhile. */
const READ_AHEAD = 4096;

/** How many ports after the one asked for are tried before the system chooses. */
const NEXT_PORTS = 20;

/** @throws {Error} when the address cannot be bound */
export async function listen(app: App, options: ListenOptions): Promise<Listener> {
  const { host, port: wanted, strictPorts } = { ...DEFAULT_SETTINGS, ...options };
  const next = Array.from({ length: NEXT_PORTS }, (_, index) => wanted + 1 + index);
  const more = wanted === 0 || strictPorts ? [] : [...next.filter((port) => port < 65536), 0];
  for (const port of [wanted, ...more]) {
    const { server, connections } = answering(app, options);
    try {
      const { backlog } = connections;
      const bound = await bind(server, { host, port, backlog });
      if (port !== wanted) {
        options.log(`Port ${wanted} is in use: listening on ${bound.port} instead`);
      }
      const stopWatching = watchAccepting(server, {
        address: bound.address,
        port: bound.port,
        backlog,
        log: options.log,
        ...(options.watchMs === undefined ? {} : { everyMs: options.watchMs }),
      });
      return {
        url: `http://${reachable(bound.address)}:${bound.port}`,
        port: bound.port,
        close: async (graceMs) => {
          stopWatching();
          await close(server, graceMs);
          connections.stop();
        },
      };
    } catch (error) {
      connections.stop();
      const isInUse = error instanceof Error && "code" in error && error.code === "EADDRINUSE";
      if (isInUse && more.length > 0) continue;
      if (isInUse) {
        throw new Error(
          `Cannot listen on ${host}:${port}: the port is in use; choose another with --port`,
          { cause: error },
        );
      }
      const why = error instanceof Error ? error.message : String(error);
      throw new Error(
        `Cannot listen on ${
          host || '""'
        }:${port}: ${why}; choose another address with --host and --port`,
        { cause: error },
      );
    }
  }
  throw new Error(`Cannot listen on ${host}: no port is free`);
}

/** A server with bounds on its connections; how fast a body comes is for those who read it. */
function answering(
  app: App,
  { log, ...limits }: ListenOptions,
): { server: Server; connections: Connections } {
  const { headMs, keepAliveMs } = { ...DEFAULT_LIMITS, ...limits };
  const server = createAdaptorServer({
    fetch: (request, env) => {
      const { incoming, outgoing } = env as HttpBindings;
      if (!connections.mayAsk(incoming.socket)) {
        incoming.socket.destroy();
        return new Response(null, { status: 503 });
      }
      // The adapter's own signal aborts with a string, which nothing takes for a cancellation.
      const gone = new AbortController();
      outgoing.once("close", () => outgoing.writableFinished || gone.abort());
      Object.defineProperty(request, "signal", { value: gone.signal });
      const address = incoming.socket.remoteAddress;
      return app.fetch(request, {
        ...(address === undefined ? {} : { remoteAddress: address }),
        openStream: (client) => connections.openStream(outgoing as ServerResponse, client),
      });
    },
    overrideGlobalObjects: false,
    serverOptions: {
      headersTimeout: headMs,
      keepAliveTimeout: keepAliveMs,
      highWaterMark: READ_AHEAD,
      // The reader of a body gives up before, and says why.
      requestTimeout: BODY_DEADLINE_MS + headMs,
      connectionsCheckingInterval: Math.min(5000, headMs),
    },
  }) as Server;
  const connections = new Connections(server, limits, log);
  return { server, connections };
}

/** Binds; refuses an empty address, which node would take for all of them. */
async function bind(
  server: Server,
  place: { host: string; port: number; backlog: number },
): Promise<{ address: string; port: number }> {
  if (place.host === "") throw new Error("the address is empty");
  const bound = Promise.withResolvers<void>();
  server.once("error", bound.reject);
  server.listen(place, bound.resolve);
  await bound.promise;
  server.off("error", bound.reject);
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("it has no port");
  return address;
}

async function close(server: Server, graceMs: number): Promise<void> {
  const closed = Promise.withResolvers<void>();
  const timer = setTimeout(() => server.closeAllConnections(), graceMs);
  server.close(() => closed.resolve());
  server.closeIdleConnections();
  await closed.promise.finally(() => clearTimeout(timer));
}

/** An address that a client can open: a wildcard is none. */
function reachable(address: string): string {
  if (address === "0.0.0.0" || address === "::") return "127.0.0.1";
  return address.includes(":") ? `[${address}]` : address;
}
