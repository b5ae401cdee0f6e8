/** The picture by which a request steers an image. */

import { asClientError } from "../contract/checks.ts";
import type { ModelInfo, SamplingSettings } from "../../engine/types.ts";
import { checkControlMode, checkTakesControl } from "../../generation/control.ts";
import type { FitMode } from "../../generation/fields.ts";
import { fitToResult } from "../../generation/fit_image.ts";
import type { Size } from "../../generation/size.ts";
import { type OpenImage, openImage, storeFitted } from "./images.ts";
import type { InputFolder } from "./input_folder.ts";
import type { UploadedFile } from "./multipart.ts";
import { oneSource, resolveReferences } from "./references.ts";

/** What pictures are fetched with. */
export interface ControlSources {
  /** Takes them. */
  readonly folder: InputFolder;
  /** Whether addresses of private networks may be fetched. */
  readonly allowPrivateUrls: boolean;
  /** Stops fetching and decoding. */
  readonly signal?: AbortSignal;
}

/**
 * Fetches and opens a control picture.
 *
 * @returns the picture; nothing where the request has none
 * @throws {ApiError} 400 when the model takes none, or it is no image
 */
export async function openControl(
  url: string | null | undefined,
  files: readonly UploadedFile[],
  info: ModelInfo,
  sources: ControlSources,
): Promise<OpenImage | undefined> {
  const source = oneSource("control", url, files);
  if (!source) return undefined;
  asClientError("control", () => checkTakesControl(info));
  const [file] = await resolveReferences([source], { ...sources, takesVideo: false });
  return await openImage(file!, sources.signal);
}

/**
 * Decodes a control picture and brings it to the size of the result.
 *
 * @throws {ApiError} 400 when it cannot be decoded
 */
export function storeControl(
  picture: OpenImage,
  size: Size,
  fit: FitMode | undefined,
  { folder, signal }: ControlSources,
): Promise<string> {
  return storeFitted(picture, fitToResult(size, fit), folder, signal);
}

/**
 * Refuses pictures of which nobody knows what they show.
 *
 * @throws {ApiError} 400 where its ControlNet asks
 */
export function checkMode(settings: SamplingSettings, info: ModelInfo): void {
  asClientError("control_mode", () => checkControlMode(settings, info, "control_mode"));
}
