/** What a request calls its images, videos and sound. */

import { badRequest } from "../contract/errors.ts";
import type { UploadedFile } from "./multipart.ts";

/** What a request calls an image or video. */
export type Source<Upload = UploadedFile> = Upload | {
  readonly field: string;
  readonly url: string;
};

/** What a field brings: its uploads, then its addresses; empty ones say nothing. */
export function sourcesOf<Upload extends { readonly field: string }>(
  field: string,
  urls: string | readonly string[] | null | undefined,
  uploads: readonly Upload[],
): Source<Upload>[] {
  return [
    ...uploads.filter((upload) => upload.field === field),
    ...[urls ?? []].flat().flatMap((url) => url === "" ? [] : [{ field, url }]),
  ];
}

/** @throws {ApiError} 400 for more than one */
export function oneSource<Upload extends { readonly field: string }>(
  ...of: Parameters<typeof sourcesOf<Upload>>
): Source<Upload> | undefined {
  const [first, ...others] = sourcesOf(...of);
  if (others.length === 0) return first;
  const [field] = of;
  throw badRequest(
    `Cannot use ${others.length + 1} values of '${field}' and its other names: a request takes one`,
    field,
  );
}

export const VIDEO_FIELDS: readonly string[] = ["video", "video_reference", "video_url"];

/** The field of a sound that a video follows. */
export const AUDIO_FIELD = "audio";

const OWN_SOURCES: Readonly<Record<string, string>> = {
  mask: "mask",
  [AUDIO_FIELD]: "sound",
  control: "control picture",
  ...Object.fromEntries(VIDEO_FIELDS.map((field) => [field, "video"])),
};

/** A source that cannot be used, in the words of the reference where it has such a field. */
export function badSource(field: string, why: string): Error {
  const what = OWN_SOURCES[field] ?? "image source";
  return badRequest(`Failed to process ${what}: ${why}`, field, "invalid_source");
}
