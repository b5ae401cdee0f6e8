/**
 * What requests are checked against, from what the server is made of.
 *
 * @module
 */

import { badRequest } from "./contract/errors.ts";
import type { RequestContext } from "./contract/generation.ts";
import { unlessAborted } from "./jobs/unless_aborted.ts";
import type { Services } from "./services.ts";

/**
 * The model and the settings that count for requests. A model that is loaded behind the first one is waited for.
 *
 * @param services of the server
 * @param signal of the request
 * @param options the model that it names, as sent, and whether the answer is the job
 * @returns the context of one request
 * @throws {ApiError} 404 for a model that is not there; 503 until the first one is loaded
 */
export async function requestContext(
  { models, settings, enhancer, storage }: Services,
  signal: AbortSignal,
  { model, respondsAsync = false }: { model?: unknown; respondsAsync?: boolean } = {},
): Promise<RequestContext> {
  const { name, engine, loras } = models.pick(model);
  // Once the first model answers, the others are on their way.
  if (settings.waitsForModels && models.first.engine.status === "ready") {
    await unlessAborted(signal, engine.settled);
  }
  return {
    info: engine.engine.info,
    servedModelName: name,
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
