/**
 * Files that come with requests, on their way from the server that took them to the worker that needs
 * them: in pieces in the database, until their job has ended.
 */

import { basename, dirname, join } from "node:path";
import { mkdir, open } from "node:fs/promises";
import type { Sql } from "postgres";
import { PRIVATE_FILE, PRIVATE_FOLDER } from "../server/storage/private_files.ts";

/** Bytes of a piece. */
const PART_BYTES = 2 ** 20;

/** A file of a request. */
export interface InputFile {
  /** Name of the file: unique in the request, without folders. */
  readonly name: string;
  /** Path of the file here. */
  readonly path: string;
}

/** The places of a request that hold paths of files. */
interface WithFiles {
  readonly images?: readonly string[];
  readonly visions?: readonly string[];
  readonly references?: readonly string[];
  readonly mask?: string | { readonly path: string };
  readonly video?: { readonly path: string };
}

/** A request whose files lie elsewhere. */
export function moveFiles<T>(request: T, move: (path: string) => string): T {
  const { images, visions, references, mask, video } = request as WithFiles;
  const all = (paths: readonly string[] | undefined) => paths?.map(move);
  const one = (file: { readonly path: string }) => ({ ...file, path: move(file.path) });
  return {
    ...request,
    ...(images && { images: all(images) }),
    ...(visions && { visions: all(visions) }),
    ...(references && { references: all(references) }),
    ...(mask && { mask: typeof mask === "string" ? move(mask) : one(mask) }),
    ...(video && { video: one(video) }),
  };
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

/** Puts files into the database. */
export async function writeInputs(
  sql: Sql,
  job: string,
  files: readonly InputFile[],
): Promise<void> {
  for (const { name, path } of files) {
    const file = await open(path, "r");
    try {
      for (let part = 0;; part++) {
        const piece = new Uint8Array(PART_BYTES);
        const { bytesRead } = await file.read(piece, 0, PART_BYTES, part * PART_BYTES);
        if (bytesRead === 0 && part > 0) break;
        await sql`INSERT INTO denoise_inputs
          VALUES (${job}, ${name}, ${part}, ${piece.subarray(0, bytesRead)})`;
        if (bytesRead < PART_BYTES) break;
      }
    } finally {
      await file.close();
    }
  }
}

/**
 * Takes the files of a job out of the database, and leaves them there.
 *
 * @param folder where they go, made where missing; files that are there already are written anew
 */
export async function readInputs(sql: Sql, job: string, folder: string): Promise<void> {
  const parts = sql`SELECT name, part, bytes FROM denoise_inputs WHERE job = ${job}
    ORDER BY name, part`.cursor(1);
  for await (const [row] of parts) {
    const path = join(folder, basename(String(row!["name"])));
    await mkdir(dirname(path), { recursive: true, mode: PRIVATE_FOLDER });
    const file = await open(path, row!["part"] === 0 ? "w" : "a", PRIVATE_FILE);
    try {
      await file.write(row!["bytes"] as Uint8Array);
    } finally {
      await file.close();
    }
  }
}
