/**
 * A model by its name, served over HTTP.
 *
 * @module
 */

import type { DeviceOptions, ModelParts } from "../engine/types.ts";
import { BUNDLED_MODEL, folderOf, namedLoras, openModel } from "../generation/open_model.ts";
import { readEnhancer } from "./enhancer.ts";
import { defaultLoraFolders } from "./loras/default_folders.ts";
import { type RunningServer, type StartOptions, startServer } from "./serve.ts";

/** How `serve()` serves. */
export interface ServeOptions extends DeviceOptions, Omit<StartOptions, "openEngine" | "enhancer"> {
  /** A model's folder, file or hub id; the bundled model when left out. */
  modelPath?: string;
  /** What does not come from there. */
  parts?: ModelParts;
  /** The model's public name; `modelPath` when left out. */
  servedModelName?: string;
  /** The text of a prompt enhancer's configuration file. */
  promptEnhancerConfig?: string;
  /** Most bytes of LoRAs kept in memory, those in use aside; 2 GiB when left out. */
  loraCacheBytes?: number;
}

/**
 * Serves a model over HTTP.
 *
 * @param options model, address, folder and settings
 * @returns the server, listening; await its `ready` for the model
 * @throws {Error} when the address cannot be bound or the folder cannot be used
 * @throws {TypeError} when the prompt enhancer's configuration is not valid
 */
export async function serve(options: ServeOptions = {}): Promise<RunningServer> {
  const { modelPath = BUNDLED_MODEL, servedModelName = modelPath, settings, ...rest } = options;
  const { promptEnhancerConfig: config } = options;
  return await startServer({
    ...rest,
    ...(config === undefined
      ? {}
      : { enhancer: readEnhancer(config, (name) => Deno.env.get(name)) }),
    settings: {
      ...{ modelPath, servedModelName },
      ...{
        loraFolders: defaultLoraFolders(folderOf(modelPath)),
        namedLoras: namedLoras(modelPath),
      },
      ...settings,
    },
    openEngine: (onProgress, signal) => {
      let tenths = 0;
      return openModel(modelPath, {
        ...options,
        signal,
        onLoadProgress: ({ stage, fraction }) => {
          if (stage === "weights") onProgress(fraction);
          if (stage !== "download" || Math.floor(fraction * 10) <= tenths) return;
          tenths = Math.floor(fraction * 10);
          options.log?.(`Fetching ${modelPath}: ${tenths * 10} %`);
        },
        ...(options.log === undefined ? {} : { onNote: options.log }),
      });
    },
  });
}
