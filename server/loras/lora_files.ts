/** From what a client calls a LoRA to a file that it may name: under certain folders, or from a hub. */

import { ApiError, badRequest, ServiceError } from "../contract/errors.ts";
import { shorten } from "../../generation/texts.ts";
import { basename, dirname, extname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { findHubLora, type HubLora, loraIn, readHubLora } from "../../hub/lora_file.ts";
import { isLoraName } from "../../hub/parts.ts";
import { HubError } from "../../hub/hub_client.ts";
import type { HubSettings } from "../../hub/hub_settings.ts";
import type { Log } from "../log.ts";
import { keepLora } from "./kept_loras.ts";
import { HubFetches, type HubLimits } from "./hub_fetches.ts";

/** Where LoRAs of clients may come from. */
export interface LoraFilesOptions {
  /** Folders whose files clients may name. */
  readonly folders: readonly string[];
  /** Files by names that may be given in place of their paths. */
  readonly named: Readonly<Record<string, string>>;
  /** Whether LoRAs are fetched from a hub for clients. */
  readonly allowHub: boolean;
  /** Bounds on what is fetched, where they are not the usual ones. */
  readonly hubLimits?: Partial<HubLimits>;
  /** Hub and cache; those of the environment by default. */
  readonly hub?: HubSettings;
  readonly log: Log;
}

/** Says that there is no such LoRA, or that it must not be named: which of the two is not for clients. */
export const LORA_NOT_FOUND = "lora_not_found";
/** Says that a LoRA is on a hub, from which this server fetches nothing for clients. */
export const HUB_NOT_ALLOWED = "hub_not_allowed";

/** Most LoRAs that are listed. */
const MAX_LISTED = 1000;

export class LoraFiles {
  readonly #options: LoraFilesOptions;
  /** Folders of the options, absolute. */
  readonly #folders: readonly string[];
  readonly #named: ReadonlyMap<string, string>;
  readonly #fetches: HubFetches;

  constructor(options: LoraFilesOptions) {
    this.#options = options;
    this.#folders = options.folders.map((folder) => resolve(folder));
    this.#named = new Map(Object.entries(options.named));
    this.#fetches = new HubFetches(options.hub, options.hubLimits);
  }

  /**
   * Finds the file of a LoRA.
   *
   * @param path a name, a file or folder under one of the folders, relative to it or absolute, or a hub id
   * @returns the file, absolute; where a path was given, in a folder that is reached without symbolic links
   * @throws {ApiError} 400 when it is not there or not allowed, 502 when the hub does not answer
   */
  async find(path: string, signal?: AbortSignal): Promise<string> {
    const named = this.#named.get(path);
    if (named !== undefined) return named;
    const found = path.includes("\0") ? undefined : await this.#underFolders(path);
    if (found !== undefined) return found;
    const hub = readHubLora(path);
    if (!hub) {
      const others = [...this.#named.keys(), ...this.#options.allowHub ? ["a hub id"] : []];
      throw badRequest(
        `Cannot find LoRA '${shorten(path)}': the folders that this server was given for LoRAs ` +
          `have no such file; name one of theirs${others.map((other) => `, or ${other}`).join("")}`,
        "lora_path",
        LORA_NOT_FOUND,
      );
    }
    if (!this.#options.allowHub) return await this.#inCache(hub, path);
    try {
      return await this.#fetches.get(
        hub,
        () => this.#options.log(`Fetching LoRA ${path} from the hub for a client`),
        signal,
      );
    } catch (cause) {
      throw explainHubFailure(cause, await this.#fetches.cacheFolder());
    }
  }

  /** Keeps a file that a client brings, in the last of the folders. @throws {ApiError} as {@linkcode keepLora} does; 403 without a folder */
  async keep<T>(
    name: string,
    body: ReadableStream<Uint8Array<ArrayBuffer>>,
    look: (file: string) => Promise<T>,
  ): Promise<T> {
    const folder = this.#folders.at(-1);
    if (folder !== undefined) return await keepLora(folder, name, body, look);
    throw new ApiError(
      403,
      "Cannot keep LoRAs: this server has no folder for them; start it with --lora-dir",
    );
  }

  /** LoRAs that clients can name in one word, those with names and files in the folders themselves, and what `find()` takes for each. */
  async list(isOther: (path: string) => boolean): Promise<{ name: string; path: string }[]> {
    const found = new Map([...this.#named.keys()].map((name) => [name, name]));
    for (const folder of this.#folders) {
      try {
        for await (const { name, isDirectory } of Deno.readDir(folder)) {
          if (isDirectory || !isLoraName(name) || isOther(join(folder, name))) continue;
          const short = name.slice(0, -extname(name).length);
          if (!found.has(short) && found.size < MAX_LISTED) found.set(short, name);
        }
      } catch {
        // A folder that cannot be read has nothing to offer.
      }
    }
    return [...found].map(([name, path]) => ({ name, path }));
  }

  /** A LoRA that somebody fetched before, where clients may name what is in the cache. */
  async #inCache(hub: HubLora, path: string): Promise<string> {
    try {
      const file = await findHubLora(hub, this.#options.hub?.cacheFolder);
      const found = await this.#underFolders(file);
      if (found !== undefined) return found;
    } catch {
      // Whether it is there, and what is wrong with it, is not for those who may not have it.
    }
    throw badRequest(
      `Cannot use LoRA '${
        shorten(path)
      }': it is not on this server, which fetches nothing from a ` +
        "hub for its clients; whoever runs it can fetch it with 'denoise pull', or allow that with " +
        "--allow-hub-loras",
      "lora_path",
      HUB_NOT_ALLOWED,
    );
  }

  async #underFolders(path: string): Promise<string | undefined> {
    const folders = this.#folders;
    const roots = await Promise.all(folders.map(realPath));
    const isAllowed = (real: string | undefined): real is string =>
      real !== undefined && roots.some((root) => root !== undefined && isWithin(real, root));
    for (const [i, root] of roots.entries()) {
      if (root === undefined) continue;
      const wanted = isAbsolute(path) ? path : join(root, path);
      // What lies outside is not even looked for: whether it exists is nobody's business.
      if (!isWithin(wanted, root) && !isWithin(wanted, folders[i]!)) continue;
      const real = await realPath(wanted);
      if (!isAllowed(real)) continue;
      const { isFile, isDirectory } = await Deno.stat(real);
      if (isFile) {
        // In a hub's cache files are links; what belongs to one lies beside the link.
        const folder = await realPath(dirname(wanted));
        if (isAllowed(folder)) return join(folder, basename(wanted));
      } else if (isDirectory && real !== root) {
        const inside = await only(real);
        if (isAllowed(await realPath(inside))) return inside;
      }
    }
    return undefined;
  }
}

/** The LoRA of a folder; the message must not tell where the folder is. */
async function only(folder: string): Promise<string> {
  try {
    return await loraIn(folder);
  } catch (error) {
    const message = (error as Error).message.replace(folder, "in that folder");
    throw badRequest(message, "lora_path", LORA_NOT_FOUND);
  }
}

/** What went wrong, in words that tell nothing of where the cache is. */
function explainHubFailure(error: unknown, cacheFolder: string): unknown {
  if (error instanceof DOMException || error instanceof ApiError || error instanceof ServiceError) {
    return error;
  }
  if (!(error instanceof Error)) return error;
  const isOfClient = error instanceof HubError || error instanceof RangeError ||
    error instanceof TypeError || error instanceof Deno.errors.NotFound;
  if (isOfClient) return badRequest(error.message, "lora_path", LORA_NOT_FOUND);
  const message = error.message.replace(
    new RegExp(`${RegExp.escape(cacheFolder)}\\S*`, "g"),
    "its cache",
  );
  return new ApiError(502, message, { param: "lora_path", code: "hub_failed", cause: error });
}

function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === "" || (way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way));
}

async function realPath(path: string): Promise<string | undefined> {
  try {
    return await Deno.realPath(path);
  } catch {
    return undefined;
  }
}
