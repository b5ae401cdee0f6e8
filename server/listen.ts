/**
 * HTTP on a port, through node's server: `Deno.serve` does not notice that a client left once its
 * body came in another packet than its headers, and would let its picture be computed to the end.
 *
 * @module
 */

import type { Server } from "node:http";
import { createAdaptorServer, type HttpBindings } from "@hono/node-server";
import type { App } from "./services.ts";
import type { Log } from "./log.ts";

/** Where to listen. */
export interface ListenOptions {
  /** Address to bind; `127.0.0.1` when left out. */
  host?: string;
  /** Port to bind; {@link DEFAULT_PORT} when left out, 0 for any that is free. */
  port?: number;
  /** Whether a port in use is an error; else a free one is taken. */
  strictPorts?: boolean;
  /** Is told of a port that is not the one asked for. */
  log: Log;
}

/** A port that is bound. */
export interface Listener {
  /** Where clients on this machine reach it, without a slash at the end. */
  readonly url: string;
  /** The port that was bound. */
  readonly port: number;
  /** Takes no more requests, and waits this many milliseconds for answers under way. */
  close(graceMs: number): Promise<void>;
}

/** Port of a server that was told none. */
export const DEFAULT_PORT = 30000;

/** How many ports after the one asked for are tried before the system chooses. */
const NEXT_PORTS = 20;

/**
 * Answers requests on a port.
 *
 * @param app answers them
 * @param options address and port
 * @returns the bound port
 * @throws {Error} when the address cannot be bound
 */
export async function listen(app: App, options: ListenOptions): Promise<Listener> {
  const { host = "127.0.0.1", port: wanted = DEFAULT_PORT, strictPorts = false } = options;
  const next = Array.from({ length: NEXT_PORTS }, (_, index) => wanted + 1 + index);
  const more = wanted === 0 || strictPorts ? [] : [...next.filter((port) => port < 65536), 0];
  for (const port of [wanted, ...more]) {
    const server = answering(app);
    try {
      const bound = await bind(server, host, port);
      if (port !== wanted) {
        options.log(`Port ${wanted} is in use: listening on ${bound.port} instead`);
      }
      return {
        url: `http://${reachable(bound.address)}:${bound.port}`,
        port: bound.port,
        close: (graceMs) => close(server, graceMs),
      };
    } catch (error) {
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

/** A server that leaves limits on time to those who read the bodies. */
function answering(app: App): Server {
  const server = createAdaptorServer({
    fetch: (request, env) => {
      const { incoming, outgoing } = env as HttpBindings;
      // The adapter's own signal aborts with a string, which nothing takes for a cancellation.
      const gone = new AbortController();
      outgoing.once("close", () => outgoing.writableFinished || gone.abort());
      Object.defineProperty(request, "signal", { value: gone.signal });
      const address = incoming.socket.remoteAddress;
      return app.fetch(request, address === undefined ? {} : { remoteAddress: address });
    },
    overrideGlobalObjects: false,
  }) as Server;
  server.requestTimeout = 0;
  server.keepAliveTimeout = 0;
  return server;
}

/** Binds; refuses an empty address, which node would take for all of them. */
async function bind(
  server: Server,
  host: string,
  port: number,
): Promise<{ address: string; port: number }> {
  if (host === "") throw new Error("the address is empty");
  const bound = Promise.withResolvers<void>();
  server.once("error", bound.reject);
  server.listen({ host, port }, bound.resolve);
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
