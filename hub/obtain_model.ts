/** A model or a part of one, fetched first where this machine does not have it. */

import { join, posix, resolve } from "node:path";
import { exists, NotFoundError } from "../platform/mod.ts";
import { findSnapshot, isHubId } from "./cache.ts";
import { partNamed } from "./catalogue_parts.ts";
import { chooseFiles, withoutVariants } from "./choose_files.ts";
import type { HubFile } from "./hub_client.ts";
import { kindOfPart, PART_COMPONENTS, type PartName } from "./model_index.ts";
import { partOf } from "./parts.ts";
import { pullModel, type PullOptions } from "./pull.ts";
import { resolveModel } from "./resolve.ts";
import { parseHubFile } from "./cache.ts";

/** Finds a model, or fetches what the cache lacks of it; of `org/name:file` that file with its other parts. */
export async function obtainModel(
  pathOrId: string,
  options: PullOptions = {},
  onPull?: () => void,
  part?: PartName,
): Promise<string> {
  const cache = { cacheFolder: options.settings?.cacheFolder };
  const hubFile = parseHubFile(pathOrId);
  try {
    return await resolveModel(pathOrId, cache);
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
  await pullModel(hubFile?.id ?? pathOrId, { ...options, ...(include && { include }) });
  return await resolveModel(pathOrId, cache);
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
