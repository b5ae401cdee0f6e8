/** What a fleet must know of the requests of jobs: their files, their LoRAs, and what room they take. */

import { mkdir, open } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Sql } from "postgres";
import type { Engine, RoomRequest } from "../engine/types.ts";
import { ROOM_SETTINGS } from "../models/pipeline/settings.ts";
import { SettingError } from "../models/setting_error.ts";
import { OutOfMemoryError } from "../runtime/errors.ts";
import type { JobLora } from "../server/contract/lora_requests.ts";
import type { ImageRequest } from "../server/images/image_request.ts";
import { PRIVATE_FILE, PRIVATE_FOLDER } from "../server/storage/disk.ts";
import { VIDEO_PREVIEWS, type VideoRequest } from "../server/videos/video_request.ts";

export interface InputFile {
  /** Name of the file: unique in the request, without folders. */
  readonly name: string;
  readonly path: string;
}

/** Fields of a request that hold paths of files: one, an object with one, or a list of either. */
const FILES: readonly string[] = [
  ...["images", "visions", "references", "referenceMasks", "control", "mask", "video", "audio"],
  "given",
];
/** Bytes of a piece of a file in the database. */
const PART_BYTES = 2 ** 20;

/** What the room that a request takes follows from. */
const ROOM_FIELDS: readonly (keyof RoomRequest)[] = [
  ...["taskType", "width", "height", "cropSize", "numFrames", "upscalingScale"] as const,
  ...ROOM_SETTINGS,
  ...["images", "hasMask", "controls", "references", "previews"] as const,
];

export function moveFiles<T>(request: T, move: (path: string) => string): T {
  type Held = string | { path: string };
  const one = (held: Held) =>
    typeof held === "string" ? move(held) : { ...held, path: move(held.path) };
  const moved = (held: Held | Held[]) => Array.isArray(held) ? held.map(one) : one(held);
  const held = Object.entries(request as object).filter(([name, held]) =>
    FILES.includes(name) && held
  );
  return { ...request, ...Object.fromEntries(held.map(([name, held]) => [name, moved(held)])) };
}

/** A request as it is kept for others, with names in place of paths. */
export function detachFiles<T>(request: T): { request: T; files: InputFile[] } {
  const files = new Map<string, InputFile>();
  const detached = moveFiles(request, (path) => {
    const name = basename(path);
    files.set(name, { name, path });
    return name;
  });
  return { request: detached, files: [...files.values()] };
}

/** Puts files into the database, in pieces, until their job has ended. */
export async function writeInputs(
  sql: Sql,
  job: string,
  files: readonly InputFile[],
): Promise<void> {
  for (const { name, path } of files) {
    await using file = await open(path, "r");
    for (let part = 0;; part++) {
      const piece = new Uint8Array(PART_BYTES);
      const { bytesRead } = await file.read(piece, 0, PART_BYTES, part * PART_BYTES);
      if (bytesRead === 0 && part > 0) break;
      await sql`INSERT INTO denoise_inputs
        VALUES (${job}, ${name}, ${part}, ${piece.subarray(0, bytesRead)})`;
      if (bytesRead < PART_BYTES) break;
    }
  }
}

/** Copies the files of a job from the database into a folder; files that are there are replaced. */
export async function readInputs(sql: Sql, job: string, folder: string): Promise<void> {
  const parts = sql`SELECT name, part, bytes FROM denoise_inputs WHERE job = ${job}
    ORDER BY name, part`.cursor(1);
  for await (const [row] of parts) {
    await mkdir(folder, { recursive: true, mode: PRIVATE_FOLDER });
    const path = join(folder, basename(row!["name"]));
    await using file = await open(path, row!["part"] === 0 ? "w" : "a", PRIVATE_FILE);
    await file.write(row!["bytes"]);
  }
}

/** The LoRAs that a request needs, a text for each, in their order: equal texts are equal LoRAs. */
export function lorasOf(request: unknown): string[] {
  const { loras = [] } = (request ?? {}) as { loras?: readonly JobLora[] };
  return loras.map(({ path, strength, target, mode }) => [path, strength, target, mode].join("|"));
}

/** A request without what takes no room, so that requests of one size are alike. */
export function onlyRoom(request: RoomRequest): RoomRequest {
  const entries = ROOM_FIELDS.map((field) => [field, request[field]] as const);
  return Object.fromEntries(
    entries.filter(([, value]) => value !== undefined && value !== false && value !== 0),
  ) as unknown as RoomRequest;
}

export function roomRequest(request: unknown): RoomRequest {
  const { images = [], references, mask, video, control, previews = VIDEO_PREVIEWS, ...others } =
    request as ImageRequest & Partial<VideoRequest>;
  return onlyRoom({
    ...others,
    images: images.length,
    references: references?.length ?? 0,
    hasMask: mask !== undefined && video === undefined,
    controls: control?.length ?? 0,
    previews,
  });
}

/** What a worker says of a request; a JSON value. */
export interface RoomAnswer {
  /** Why not; absent where it can. */
  readonly refusal?: string;
  /** The setting that is refused, where it is one. */
  readonly setting?: string;
  /** Bytes that it would need at least, where it is for the memory. */
  readonly needs?: number;
}

export async function roomIn(engine: Engine, request: RoomRequest): Promise<RoomAnswer> {
  try {
    await engine.checkRoom(request);
    return {};
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    // The table that may follow is for the owner of the machine.
    const refusal = error.message.split("\n")[0]!;
    return {
      refusal,
      ...(error instanceof OutOfMemoryError && { needs: error.requestedBytes }),
      ...(error instanceof SettingError && { setting: error.setting }),
    };
  }
}
