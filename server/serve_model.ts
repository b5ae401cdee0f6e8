/** A model by its name, served over HTTP. */

import type { Card } from "../engine/cards/card.ts";
import { type CardPlan, chooseCards, groupCards } from "../engine/cards/choose_cards.ts";
import { Scheduler } from "../engine/cards/scheduler.ts";
import { groupSize } from "../engine/worker_group.ts";
import type { DeviceOptions, EngineOptions, ModelParts } from "../engine/options.ts";
import { folderOf, namedLoras, openModel } from "../generation/open_model.ts";
import { findCacheFolder } from "../hub/cache.ts";
import { CATALOGUE } from "../hub/catalogue.ts";
import { servableModels } from "../hub/servable.ts";
import { cachedSteering, steeringPlaces } from "../hub/steering_parts.ts";
import { BUNDLED_MODEL } from "../models/lora/bundled.ts";
import { readEnhancer } from "./prompts/enhancer.ts";
import { defaultLoraFolders } from "./loras/start_loras.ts";
import { SteeringChoices } from "./models/steering_choices.ts";
import { startServer } from "./serve.ts";
import type {
  EngineOpener,
  FoundSource,
  OtherSource,
  RunningServer,
  Start,
  StartOnCards,
  StartOptions,
} from "./start_options.ts";

/** How long kernels are compiled before the log says so, and between two lines, in milliseconds. */
const LINE_MS = 2000;

/** How `serve()` serves. */
export interface ServeOptions
  extends DeviceOptions, Omit<StartOptions, "openEngine" | "others" | "enhancer"> {
  /** What does not come from there. */
  parts?: ModelParts;
  /** Whether the bundled model and those of the hub's cache are served besides, as they come and go; off by default. */
  findsModels?: boolean;
  /** Further models, which requests name; they take turns on the GPU, and are loaded when they are asked for. */
  otherModels?: readonly ModelSource[];
  /** How many GPUs work, or which of those that `denoise doctor` lists; one by default. */
  gpus?: number | readonly number[];
  /** Models that may be on some of the GPUs alone: names, and numbers of GPUs. */
  pins?: Readonly<Record<string, readonly number[]>>;
  /** Whether all jobs run elsewhere, so that no GPU is opened. */
  isFront?: boolean;
  /** Starts the server, such as a member of a fleet; a server of its own by default. */
  start?: Start;
  /** The text of a prompt enhancer's configuration file. */
  promptEnhancerConfig?: string;
}

/** A model and what it is called. */
export interface ModelSource {
  /** Public name of the model. */
  name: string;
  /** Folder, file or hub id of the model, or `bundled`. */
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
  const {
    modelPath = BUNDLED_MODEL,
    servedModelName = modelPath,
    start = startServer,
    ...rest
  } = options;
  const { promptEnhancerConfig: config, otherModels = [], findsModels, parts, ...device } = options;
  const isShared = otherModels.length > 0;
  const cards = new Scheduler(plansOf(options), { onNote: options.log, isShared });
  const isAlone = cards.all.length === 1;
  const pins = readPins(options, [servedModelName, ...otherModels.map(({ name }) => name)], cards);
  const open = async (
    { name, modelPath, parts, isFirst }: ModelSource & {
      parts?: ModelParts | undefined;
      isFirst?: boolean;
    },
    ...[onProgress, signal]: Parameters<EngineOpener>
  ) => {
    let tenths = 0;
    let sharedLoras: EngineOptions["sharedLoras"];
    const openOn = async (card: Card) => {
      let [weights, kernels] = [0, 0];
      let nextLine = performance.now() + LINE_MS;
      const isNamed = isShared || !isFirst;
      const where = [...isAlone ? [] : [`GPU ${card.id}`], ...isNamed ? [name] : []].join(", ");
      const log = (line: string) => options.log?.(where ? `${where}: ${line}` : line);
      const engine = await openModel(
        modelPath,
        {
          ...device,
          ...(parts ? { parts } : {}),
          signal,
          prepared: {},
          onLoadProgress: ({ stage, fraction, done = 0, total = 0 }) => {
            if (stage === "weights") weights = fraction;
            if (stage === "kernels") {
              kernels = fraction;
              const now = performance.now();
              if (now > nextLine) log(`Compiling kernels: ${done} of ${total}`);
              if (now > nextLine) nextLine = now + LINE_MS;
            }
            const isDownload = stage === "download";
            onProgress(isDownload ? fraction : (weights + kernels) / 2, isDownload);
            if (!isDownload || Math.floor(fraction * 10) <= tenths) return;
            tenths = Math.floor(fraction * 10);
            options.log?.(`Fetching ${modelPath}: ${tenths * 10} %`);
          },
          ...(options.log && { onNote: log }),
        },
        isShared || !isFirst,
        {
          card: card.plan.address,
          ...(card.plan.group && { groupCards: card.plan.group }),
          ...(sharedLoras && { sharedLoras }),
        },
      );
      sharedLoras ??= engine.loras;
      return engine;
    };
    const on = cards.all.filter(({ id }) => pins[name]?.includes(id) ?? true);
    return await cards.open({ name, on, open: openOn, isLoaded: isShared && isFirst === true });
  };
  const sourceOf = ({ name, modelPath: path }: ModelSource): OtherSource => ({
    name,
    path,
    ...loraPlaces(path),
    ...(rest.loraFolders ? { loraFolders: rest.loraFolders } : {}),
    open: (...how) => open({ name, modelPath: path, parts: forAll }, ...how),
  });
  const forAll = parts?.embeddings === undefined ? undefined : { embeddings: parts.embeddings };
  const bundled = { name: BUNDLED_MODEL, modelPath: BUNDLED_MODEL, aliases: [], version: "" };
  const choices = new SteeringChoices(options.log);
  const find = async () => {
    const there = await cachedSteering(findCacheFolder());
    return [bundled, ...await servableModels()].map((model): FoundSource => {
      const { name, modelPath, aliases, version } = model;
      const source = { ...sourceOf(model), aliases, version, close: () => cards.remove(name) };
      const entry = CATALOGUE.find(({ name }) => name === modelPath);
      if (!entry) return source;
      return choices.steered(
        source,
        entry,
        there,
        async (steering, how) => {
          const places = await steeringPlaces(steering, findCacheFolder());
          return await open({ name, modelPath, parts: { ...forAll, ...places } }, ...how);
        },
      );
    });
  };
  const all: StartOnCards = {
    ...loraPlaces(modelPath),
    ...rest,
    modelPath,
    servedModelName,
    numGpus: cards.all.reduce((sum, { plan }) => sum + (plan.group?.length ?? 1), 0),
    ...(config === undefined
      ? {}
      : { enhancer: readEnhancer(config, (name) => Deno.env.get(name)) }),
    cards,
    openEngine: (...how) =>
      open({ name: servedModelName, modelPath, parts, isFirst: true }, ...how),
    others: otherModels.map(sourceOf),
    ...(findsModels ? { find } : {}),
  };
  return await start(all);
}

function plansOf(
  { gpus = 1, forceSoftware, parallel = {}, isFront, log }: ServeOptions,
): readonly CardPlan[] {
  const size = groupSize(parallel);
  if (isFront || (gpus === 1 && size === 1)) {
    return [{ gpu: 0, name: "", memoryBytes: 0, address: {} }];
  }
  const wanted = typeof gpus === "number" ? { count: gpus === 1 ? size : gpus } : { gpus };
  const single = chooseCards(wanted, { isSoftware: forceSoftware });
  const plans = size === 1 ? single : groupCards(single, size);
  for (const name of new Set(plans.map(({ name }) => name))) {
    const alike = plans.filter((plan) => plan.name === name);
    const isShared = new Set(alike.map(({ gpu }) => gpu)).size < alike.length;
    if (isShared) log?.(`Note: ${alike.length} workers share ${name}`);
  }
  return plans;
}

/** Which models may be on which cards. @throws {RangeError} for a name that is no model's, and a number that is no card's */
function readPins(
  { pins = {} }: ServeOptions,
  names: readonly string[],
  { all }: Scheduler,
): Readonly<Record<string, readonly number[]>> {
  for (const [name, gpus] of Object.entries(pins)) {
    if (!names.includes(name)) {
      throw new RangeError(`Cannot pin ${name}: the models are called ${names.join(", ")}`);
    }
    const missing = gpus.find((gpu) => !all.some(({ id }) => id === gpu));
    if (missing === undefined && gpus.length > 0) continue;
    const known = all.map(({ id }) => id).join(", ");
    throw new RangeError(
      `Cannot pin ${name} to GPU ${missing ?? "none"}: the server uses ${known}; add it to --gpus`,
    );
  }
  return pins;
}

/** Where LoRAs of a model may come from. */
function loraPlaces(modelPath: string) {
  return {
    loraFolders: defaultLoraFolders(folderOf(modelPath)),
    namedLoras: namedLoras(modelPath),
  };
}
