/** The service inside of another server. */

import { startServer } from "./serve.ts";
import { serve, type ServeOptions } from "./serve_model.ts";
import type { App } from "./services.ts";

/** What a server of one's own knows of a request. */
export interface HandlerInfo {
  /** Address of the client, for fair turns; all requests without one share a turn. */
  remoteAddress?: string;
}

/** Answers requests for the paths of denoise, such as `/v1/models`. */
export interface Handler {
  /** Answers a request; its signal, when it fires, ends the work. */
  (request: Request, info?: HandlerInfo): Promise<Response>;
  /** Resolves when the model is loaded; rejects when it cannot be. */
  readonly ready: Promise<void>;
  /** Refuses what waits, lets a generation finish within the grace, frees the GPU. */
  close(): Promise<void>;
}

/**
 * The service as a function, to be mounted in a server of one's own: `Deno.serve(handler)`, a route of Hono.
 *
 * @param options as for {@link serve}; `allowedHosts` names the hosts by which clients call the server, those of this machine
 * by default; `publicUrl` with its path makes links right under a prefix, which the outer server takes off
 * @returns the handler; the model may still be loading, see its `ready`
 * @throws {Error} when the folder of results cannot be used
 */
export async function createHandler(
  options: Omit<ServeOptions, "start" | "host" | "port" | "strictPorts"> = {},
): Promise<Handler> {
  const bound = Promise.withResolvers<App>();
  const { ready, close } = await serve({
    ...options,
    start: (all) =>
      startServer(all, (app) => {
        bound.resolve(app);
        return Promise.resolve({ url: "", port: 0, close: () => Promise.resolve() });
      }),
  });
  const app = await bound.promise;
  const answer = async (request: Request, { remoteAddress }: HandlerInfo = {}) =>
    await app.fetch(request, remoteAddress === undefined ? {} : { remoteAddress });
  return Object.assign(answer, { ready, close });
}
