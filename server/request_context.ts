/** What requests are checked against, from what the server is made of. */

import type { Engine } from "../engine/types.ts";
import type { RequestContext } from "./contract/generation.ts";
import { unlessAborted } from "./jobs/job_end.ts";
import type { ServedModel } from "./served_models.ts";
import type { Services } from "./services.ts";

/**
 * The engine of a model. One that loads behind the first one is waited for, unless the server was started otherwise.
 *
 * @throws {ServiceError} 503 until the first one is loaded, or when this one cannot be loaded
 */
export async function engineOf(
  { models, settings }: Pick<Services, "models" | "settings">,
  { engine }: ServedModel,
  signal: AbortSignal,
): Promise<Engine> {
  const isBehind = engine.status === "loading" && models.first.engine.status === "ready";
  if (isBehind && settings.waitsForModels) await unlessAborted(signal, engine.settled);
  return engine.engine;
}

/** The model that a request names and the settings that count. @throws {ApiError} 404 for none of ours; 503 until the first is loaded */
export async function requestContext(
  services: Services,
  signal: AbortSignal,
  { model, respondsAsync = false }: { model?: unknown; respondsAsync?: boolean } = {},
): Promise<RequestContext> {
  const { models, settings, enhancer, storage } = services;
  const picked = models.pick(model);
  const { name, engine, loras } = picked;
  return {
    info: (await engineOf(services, picked, signal)).info,
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
    checkRoom: async (request) => {
      try {
        await engine.engine.checkRoom(request);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        // The table that may follow is for those who own the machine.
        throw new RangeError(error.message.split("\n")[0]!);
      }
    },
  };
}
