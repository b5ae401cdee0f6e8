/** A model or a part of one, fetched first where this machine does not have it. */

import { join, posix, resolve } from "node:path";
import { exists, NotFoundError } from "../platform/mod.ts";
import { findSnapshot, isHubId } from "./cache.ts";
import { partNamed } from "./catalogue_parts.ts";
import { chooseFiles, withoutVariants } from "./choose_files.ts";
import type { HubFile } from "./hub_client.ts";
import {
  foldersOf,
  kindOfPart,
  PART_COMPONENTS,
  type PartName,
  readModelIndex,
} from "./model_index.ts";
import { partOf } from "./parts.ts";
import { pullModel, type PullOptions } from "./pull.ts";
import { resolveModel } from "./resolve.ts";
import { parseHubFile } from "./cache.ts";

export interface ObtainOptions extends PullOptions {
  /** Parts that come from elsewhere: a repository's own are not fetched. */
  readonly given?: readonly PartName[];
}

/** Components that lie elsewhere. */
export function componentsOf({ given = [] }: Pick<ObtainOptions, "given">): string[] {
  return given.map((part) => PART_COMPONENTS[part]);
}

/** What a model needs of a repository's files, without some components. */
export function chooseWithout(without: readonly string[]): NonNullable<PullOptions["choose"]> {
  const folders = without.flatMap(foldersOf);
  return (id, files) =>
    chooseFiles(id, files)
      .filter(({ path }) => !folders.some((folder) => path.startsWith(`${folder}/`)));
}

/** Finds a model, or fetches what the cache lacks of it; of `org/name:file` that file with its other parts. */
export async function obtainModel(
  pathOrId: string,
  options: ObtainOptions = {},
  onPull?: () => void,
  part?: PartName,
): Promise<string> {
  const cache = { cacheFolder: options.settings?.cacheFolder };
  const hubFile = parseHubFile(pathOrId);
  try {
    const path = await resolveModel(pathOrId, cache);
    const isOfHub = !hubFile && isHubId(pathOrId) && !await exists(pathOrId);
    if (!isOfHub || await hasComponents(path, componentsOf(options))) return path;
  } catch (error) {
    const isMissing = error instanceof NotFoundError &&
      (hubFile !== undefined || isHubId(pathOrId));
    // A folder of that name is what is meant, whatever it lacks.
    if (!isMissing || await exists(pathOrId)) throw error;
  }
  onPull?.();
  const include = hubFile && [
    partOf(hubFile.file)?.pattern ?? hubFile.file,
    ...part && kindOfPart(part) === "ipAdapter" ? encoderFiles(hubFile.file) : [],
  ];
  const chosen = include ? { include } : { choose: chooseWithout(componentsOf(options)) };
  await pullModel(hubFile?.id ?? pathOrId, { ...options, ...chosen });
  return await resolveModel(pathOrId, cache);
}

/** Whether a folder has what its index names of the components that may be left out, but those. */
async function hasComponents(path: string, without: readonly string[]): Promise<boolean> {
  // Whoever opens it says what is wrong with its index.
  const index = await readModelIndex(path).catch(() => undefined);
  for (const component of Object.values(PART_COMPONENTS)) {
    const folder = index?.components.get(component)?.folder;
    if (folder === undefined || without.includes(component)) continue;
    if (!await exists(join(path, folder))) return false;
  }
  return true;
}

/** Files of the image encoder of an IP-Adapter's file, in the folders of h94/IP-Adapter. */
function encoderFiles(file: string): string[] {
  const folder = /vit-?h/i.test(file)
    ? "models"
    : /vit-?g/i.test(file)
    ? "sdxl_models"
    : posix.dirname(file);
  const encoder = posix.join(folder, "image_encoder");
  return [`${encoder}/config.json`, `${encoder}/model*.safetensors*`];
}

/** Finds a part by a path, `org/name:file` or `org/name`, or by its name in the catalogue; fetches what is missing. */
export async function obtainPart(
  named: string,
  part: PartName,
  options: PullOptions = {},
  onPull?: () => void,
): Promise<string> {
  if (await exists(named)) return resolve(named);
  // A refiner is the UNet of a model of its own.
  const kind = kindOfPart(part);
  const isControlNet = kind === "controlnet";
  const component = part === "refiner" ? "unet" : PART_COMPONENTS[kind];
  const known = partNamed(named);
  const pathOrId = known?.part === kind ? known.source : named;
  if (!isHubId(pathOrId)) return await obtainModel(pathOrId, options, onPull, part);
  if (kind === "ipAdapter") {
    throw new TypeError(
      `Cannot use ${pathOrId} as an IP-Adapter: name one of its files, as ${pathOrId}:FILE, or a name that ` +
        '"denoise list --all" shows',
    );
  }
  const cache = { cacheFolder: options.settings?.cacheFolder };
  const find = async () => {
    const path = await findSnapshot(pathOrId, cache);
    const folder = join(path, component);
    // ControlNets have repositories of their own.
    const isAlone = isControlNet && !await exists(folder) &&
      await exists(join(path, "config.json"));
    return isAlone ? path : folder;
  };
  const there = await find().catch((error) => {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  });
  if (there !== undefined && await exists(there)) return resolve(there);
  onPull?.();
  const own = isControlNet ? ["config.json", "diffusion_pytorch_model*"] : [];
  const choose = (id: string, files: readonly HubFile[]) =>
    withoutVariants(chooseFiles(id, files, [`${component}/*`, ...own]));
  await pullModel(pathOrId, { ...options, choose });
  return resolve(await find());
}
