/**
 * Files that come with requests, on their way from the server that took them to the worker that needs
 * them: in pieces in the database, until their job has ended.
 */

import { basename, join } from "node:path";
import { mkdir, open } from "node:fs/promises";
import type { Sql } from "postgres";
import { PRIVATE_FILE, PRIVATE_FOLDER } from "../server/storage/disk.ts";
import type { InputFile } from "./requests.ts";

/** Bytes of a piece. */
const PART_BYTES = 2 ** 20;

/** Puts files into the database. */
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
