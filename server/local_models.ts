/** The models that a process has loaded itself. */

import type { Engine } from "../engine/types.ts";
import { EngineState } from "./engine_state.ts";
import type { Log } from "./log.ts";
import { LoraFiles } from "./loras/lora_files.ts";
import { ServerLoras } from "./loras/server_loras.ts";
import type { OtherSource } from "./start_options.ts";
import { ServedModels } from "./served_models.ts";
import type { ServerSettings } from "./settings.ts";

/** A further model of a server. */
export interface OtherModel extends Omit<OtherSource, "open"> {
  /** The model, loaded or loading. */
  readonly engine: Engine | EngineState;
}

/** What {@link localModels} makes models of. */
interface LocalModels {
  /** The first one. */
  readonly engine: EngineState;
  /** Further ones. */
  readonly others: readonly OtherModel[];
  /** Names, and where LoRAs may come from. */
  readonly settings: ServerSettings;
  /** Takes lines for the log. */
  readonly log: Log;
}

/**
 * Makes the models of a process.
 *
 * @returns the models, each with LoRAs of its own
 */
export function localModels({ engine, others, settings, log }: LocalModels): ServedModels {
  const { loraFolders: folders, namedLoras: named, loraMergeMode, allowHubLoras } = settings;
  const lorasOf = (
    engine: EngineState,
    folders: readonly string[],
    named: Readonly<Record<string, string>>,
  ) =>
    new ServerLoras(
      engine,
      new LoraFiles({ folders, named, allowHub: allowHubLoras, log }),
      loraMergeMode,
    );
  const first = {
    name: settings.servedModelName,
    path: settings.modelPath,
    namedLoras: named,
    engine,
    loras: lorasOf(engine, folders, named),
  };
  const rest = others.map(({ name, path, ...other }) => {
    const engine = engineState(other.engine);
    const { namedLoras = {}, loraFolders = folders } = other;
    return { name, path, namedLoras, engine, loras: lorasOf(engine, loraFolders, namedLoras) };
  });
  return new ServedModels([first, ...rest]);
}

/** The state of an engine. */
export function engineState(engine: Engine | Promise<Engine> | EngineState): EngineState {
  return engine instanceof EngineState ? engine : new EngineState(engine);
}
