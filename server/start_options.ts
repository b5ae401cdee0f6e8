/** What a server is started with, and what the caller gets of it. */

import type { Scheduler } from "../engine/cards/scheduler.ts";
import type { Engine } from "../engine/types.ts";
import type { Steering } from "../hub/steering_parts.ts";
import type { PromptEnhancer } from "./prompts/enhancer.ts";
import type { Log } from "./log.ts";
import type { StartLora } from "./loras/start_loras.ts";
import type { ServerSettings } from "./settings.ts";
import type { S3Settings } from "./storage/s3_settings.ts";

/** Opens the engine; tells how far it is, 0 to 1, and whether files are fetched meanwhile. A signal gives it up. */
export type EngineOpener = (
  onProgress: (fraction: number, isDownload?: boolean) => void,
  signal: AbortSignal,
) => Promise<Engine>;

/** A further model of a server. */
export interface OtherSource {
  /** Public name of the model. */
  readonly name: string;
  /** A folder, a file or a hub id. */
  readonly path: string;
  /** Folders whose LoRAs clients may name; those of the first model by default. */
  readonly loraFolders?: readonly string[];
  /** Files of LoRAs by names that clients may give in place of their paths. */
  readonly namedLoras?: Readonly<Record<string, string>>;
  /** Opens it. */
  readonly open: EngineOpener;
}

/** ControlNets and IP-Adapters of a model that may be others. */
export interface FoundSteering {
  /** Those of this machine that the model takes. */
  readonly available: Steering;
  /** How many it is opened with at most. */
  readonly most: Readonly<Record<keyof Steering, number>>;
  /** Those that it was opened with. */
  readonly used: Steering;
  /**
   * Says which it is opened with from now on.
   *
   * @param wanted names of the catalogue
   * @returns takes that back
   * @throws {RangeError} for what is not there, or too much
   */
  choose(wanted: Steering): () => void;
}

/** A model of this machine that a server was not told of. */
export interface FoundSource extends OtherSource {
  /** Absent where it takes none. */
  readonly steering?: FoundSteering;
  /** Other names of the model, such as the id of its repository. */
  readonly aliases: readonly string[];
  /** Another text where its files are others. */
  readonly version: string;
  /** Frees it when its files are gone. */
  readonly close: () => Promise<void>;
}

/** What a server is started with; its settings have defaults. */
export interface StartOptions extends Partial<ServerSettings> {
  /** Opens the model; the server listens while that goes on. */
  openEngine: EngineOpener;
  /** Further models, opened one after the other when that is done. */
  others?: readonly OtherSource[];
  /** Looks for models that are served besides, again and again; none by default. */
  find?: () => Promise<readonly FoundSource[]>;
  /** Bucket for results; what cannot be uploaded stays in `outputPath`. */
  s3?: S3Settings;
  /** LoRAs that are set before the first request is answered. */
  loras?: readonly StartLora[];
  /** Rewrites prompts. */
  enhancer?: PromptEnhancer;
  /** Takes lines for the log. */
  log?: Log;
  /** How long a generation may go on when the server stops, in milliseconds; 10 s by default. */
  graceMs?: number;
}

/** What a server is started with, and what its engines share; one job runs at a time by default. */
export type StartOnCards = StartOptions & { readonly cards?: Scheduler };

/** Starts a server. */
export type Start = (options: StartOptions) => Promise<RunningServer>;

/** A server that listens. */
export interface RunningServer {
  /** Address where the server listens, without a slash at the end; empty for a process that does not listen. */
  readonly url: string;
  /** The port that was bound. */
  readonly port: number;
  /** Resolves when the model is loaded; rejects when it cannot be. */
  readonly ready: Promise<void>;
  /**
   * Stops: refuses what waits, lets a generation finish within the grace, frees the GPU. May be
   * called more than once.
   *
   * @throws {Error} when the GPU's thread is still at work; to exit then, rather than to be killed by
   * a signal, may crash
   */
  close(): Promise<void>;
}
