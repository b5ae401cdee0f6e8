/**
 * What requests are checked against, from what the server is made of.
 *
 * @module
 */

import { badRequest } from "./contract/errors.ts";
import type { RequestContext } from "./contract/generation.ts";
import type { Services } from "./services.ts";

/**
 * The model and the settings that count for requests.
 *
 * @param services of the server
 * @param signal of the request
 * @param respondsAsync whether the answer is the job
 * @returns the context of one request
 * @throws {ApiError} 503 until the model is loaded
 */
export function requestContext(
  { engine, settings, enhancer, storage, loras }: Services,
  signal: AbortSignal,
  respondsAsync = false,
): RequestContext {
  return {
    info: engine.engine.info,
    servedModelName: settings.servedModelName,
    strictFields: settings.strictFields,
    defaultSeed: settings.defaultSeed,
    canEnhance: enhancer !== undefined,
    persistent: storage !== undefined,
    respondsAsync,
    ...(settings.webhookSecret === undefined
      ? {}
      : { webhooks: { allowPrivate: settings.allowPrivateUrls } }),
    findLoras: (items) => loras.resolve(items, signal),
    checkRoom: async (request, param) => {
      try {
        await engine.engine.checkRoom(request);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        // The table that may follow is for those who own the machine.
        throw badRequest(error.message.split("\n")[0]!, param);
      }
    },
  };
}
