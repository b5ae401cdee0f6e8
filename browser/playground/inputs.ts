/** Images that requests of a tab bring, kept as pixels until their jobs end; stands in for `server/inputs/references.ts`. */
import type { InputImage } from "../../engine/types.ts";
import { localReader } from "../../generation/local_inputs.ts";
import type { GivenSound, VideoInputTypes, VideoReader } from "../../generation/prepare_video.ts";
import { ImageError, type PixelImage } from "../../media/image.ts";
import type { GivenInput } from "../../server/inputs/kept_inputs.ts";
import { badSource, type Source } from "../../server/inputs/sources.ts";
import type { GivenVideo } from "../../server/videos/video_request.ts";
import { mount, unmount } from "../files.ts";
import { probeVideo, VideoError } from "../video.ts";

/** A file of a form. */
export interface TabUpload {
  readonly field: string;
  readonly file: Blob;
}

interface TabInputs extends VideoInputTypes {
  readonly source: Source<TabUpload>;
  readonly open: PixelImage;
  readonly kept: string;
  readonly clipSource: Source<TabUpload>;
  readonly clip: GivenVideo;
  readonly sound: GivenSound;
}

/** Images by the ids of their jobs. */
const kept = new Map<string, InputImage[]>();
/** Files as they came, by the ids of the jobs. */
const given = new Map<string, (GivenInput & { readonly file: Blob })[]>();

/** Reads the images and videos of a job's request, and keeps them as the model takes them. */
export function tabReader(job: string): VideoReader<TabInputs> {
  const local = localReader();
  const keep = (image: InputImage) => {
    const images = kept.get(job) ?? [];
    kept.set(job, images);
    return `${job}/${images.push(image) - 1}`;
  };
  const take = async (source: Source<TabUpload>) => {
    const file = "file" in source ? source.file : await fetchImage(source);
    const before = given.get(job) ?? [];
    const path = `${job}/${before.length}`;
    given.set(job, [...before, { field: source.field, path, contentType: file.type, file }]);
    mount(path, { kind: "blob", blob: file });
    return { path, file };
  };
  const reader: VideoReader<TabInputs> = {
    open: async (source) => {
      const { file } = await take(source);
      try {
        return await local.open(new Uint8Array(await file.arrayBuffer()));
      } catch (error) {
        throw error instanceof ImageError ? badSource(source.field, error.message) : error;
      }
    },
    fit: async (image, how) => {
      const { image: fitted, hasHoles } = await local.fit(image, how);
      return { image: keep(fitted), hasHoles };
    },
    mask: async (image, how, way) => keep(await local.mask(image, how, way)),
    openClip: async (source) => {
      const { path } = await take(source);
      try {
        return { path, info: await probeVideo("WebCodecs", path) };
      } catch (error) {
        throw error instanceof VideoError ? badSource(source.field, error.message) : error;
      }
    },
    openSound: ({ field }) =>
      Promise.reject(badSource(field, "a tab follows no sound; use a server")),
    openMask: async (source) => {
      const isVideo = "file" in source && source.file.type.startsWith("video/");
      return isVideo ? await reader.openClip(source, 1) : { image: await reader.open(source) };
    },
    checkClip: () => {},
  };
  return reader;
}

/** What sources of a video are, by what they say of themselves. */
export async function resolveInputs(
  sources: readonly Source<TabUpload>[],
): Promise<(TabUpload & { readonly kind: "image" | "video" })[]> {
  return await Promise.all(sources.map(async (source) => {
    const file = "file" in source ? source.file : await fetchImage(source);
    const kind = file.type.startsWith("video/") ? "video" : "image";
    return { field: source.field, file, kind };
  }));
}

async function fetchImage({ field, url }: { field: string; url: string }): Promise<Blob> {
  const answer = await fetch(url).catch(() => undefined);
  if (answer?.ok) return await answer.blob();
  throw badSource(field, answer ? `its server says ${answer.status}` : "it cannot be fetched");
}

/** An image that {@link tabReader} kept. */
export function readImage(path: string): Promise<InputImage> {
  const [job, index] = path.split("/") as [string, string];
  return Promise.resolve(kept.get(job)![Number(index)]!);
}

/** What the request of a job brought. */
export function givenOf(job: string): GivenInput[] {
  return (given.get(job) ?? []).map(({ file: _, ...input }) => input);
}

/** Reads a file that a request brought. */
export async function readGiven(path: string): Promise<Uint8Array<ArrayBuffer>> {
  const [job, index] = path.split("/") as [string, string];
  return new Uint8Array(await given.get(job)![Number(index)]!.file.arrayBuffer());
}

/** Puts a file that a request brought into the tab's table. */
export async function copyGiven(path: string, to: string): Promise<void> {
  mount(to, { kind: "memory", bytes: await readGiven(path) });
}

/** Frees the images of a job that has ended. */
export function forgetInputs(job: string): void {
  kept.delete(job);
  for (const { path } of given.get(job) ?? []) unmount(path);
  given.delete(job);
}
