/**
 * A model by its name, served over HTTP.
 *
 * @module
 */

import { SharedDevice } from "../engine/shared_device.ts";
import type { DeviceOptions, ModelParts } from "../engine/types.ts";
import { BUNDLED_MODEL, folderOf, namedLoras, openModel } from "../generation/open_model.ts";
import { readEnhancer } from "./enhancer.ts";
import { defaultLoraFolders } from "./loras/default_folders.ts";
import { type EngineOpener, type RunningServer, type StartOptions, startServer } from "./serve.ts";

/** How `serve()` serves. */
export interface ServeOptions
  extends DeviceOptions, Omit<StartOptions, "openEngine" | "others" | "enhancer"> {
  /** A model's folder, file or hub id; the bundled model when left out. */
  modelPath?: string;
  /** What does not come from there. */
  parts?: ModelParts;
  /** The model's public name; `modelPath` when left out. */
  servedModelName?: string;
  /** Further models, which requests name; they take turns on the GPU, and are loaded when they are asked for. */
  otherModels?: readonly ModelSource[];
  /** The text of a prompt enhancer's configuration file. */
  promptEnhancerConfig?: string;
  /** Most bytes of LoRAs kept in memory, those in use aside; 2 GiB when left out. */
  loraCacheBytes?: number;
}

/** A model and what it is called. */
export interface ModelSource {
  /** Its public name. */
  name: string;
  /** Its folder, file or hub id, or `bundled`. */
  modelPath: string;
}

/**
 * Serves models over HTTP.
 *
 * @param options model, address, folder and settings
 * @returns the server, listening; await its `ready` for the model
 * @throws {Error} when the address cannot be bound or the folder cannot be used
 * @throws {TypeError} when the prompt enhancer's configuration is not valid
 */
export async function serve(options: ServeOptions = {}): Promise<RunningServer> {
  const { modelPath = BUNDLED_MODEL, servedModelName = modelPath, settings, ...rest } = options;
  const { promptEnhancerConfig: config, otherModels = [], parts, ...device } = options;
  const shared = otherModels.length > 0 ? new SharedDevice(options.log) : undefined;
  const open = async (
    { name, modelPath, parts }: ModelSource & { parts?: ModelParts | undefined },
    ...[onProgress, signal]: Parameters<EngineOpener>
  ) => {
    let tenths = 0;
    const engine = await openModel(modelPath, {
      ...device,
      ...(parts ? { parts } : {}),
      signal,
      onLoadProgress: ({ stage, fraction }) => {
        if (stage === "weights") onProgress(fraction);
        if (stage !== "download" || Math.floor(fraction * 10) <= tenths) return;
        tenths = Math.floor(fraction * 10);
        options.log?.(`Fetching ${modelPath}: ${tenths * 10} %`);
      },
      ...(options.log === undefined ? {} : { onNote: options.log }),
    }, shared !== undefined);
    return shared?.add(engine, name) ?? engine;
  };
  return await startServer({
    ...rest,
    ...(config === undefined
      ? {}
      : { enhancer: readEnhancer(config, (name) => Deno.env.get(name)) }),
    settings: {
      ...{ modelPath, servedModelName, ...loraPlaces(modelPath) },
      ...settings,
    },
    openEngine: async (...how) => {
      const engine = await open({ name: servedModelName, modelPath, parts }, ...how);
      if (shared) await engine.load();
      return engine;
    },
    others: otherModels.map(({ name, modelPath: path }) => ({
      ...{ name, path, ...loraPlaces(path) },
      ...(settings?.loraFolders ? { loraFolders: settings.loraFolders } : {}),
      open: (...how) => open({ name, modelPath: path }, ...how),
    })),
  });
}

/** Where LoRAs of a model may come from. */
function loraPlaces(modelPath: string) {
  return {
    loraFolders: defaultLoraFolders(folderOf(modelPath)),
    namedLoras: namedLoras(modelPath),
  };
}
