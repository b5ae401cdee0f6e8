/** Results of a fleet in a folder: every member must see the same one. */

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PRIVATE_FILE, PRIVATE_FOLDER } from "../server/storage/disk.ts";
import type { Database } from "./database.ts";
import { DEAD_MS } from "./roster.ts";

/** Lies in the folder, and says whose it is. */
const MARK = ".denoise-fleet";

/** The first member marks the folder for results. @throws {Error} when the others keep theirs in another one */
export async function requireSharedFolder(database: Database, folder: string): Promise<void> {
  const path = join(folder, MARK);
  await mkdir(folder, { recursive: true, mode: PRIVATE_FOLDER });
  const own = crypto.randomUUID();
  await database.transaction(async (sql) => {
    const [row] = await sql`INSERT INTO denoise_settings VALUES ('folder', ${own})
      ON CONFLICT (name) DO UPDATE SET name = 'folder' RETURNING value`;
    const mark = String(row?.["value"]);
    // Only now: a member that joins at the same time has written it by then.
    if (await readFile(path, "utf8").catch(() => "") === mark) return;
    const others = mark === own ? [] : await sql`SELECT 1 FROM denoise_members
      WHERE seen_at > clock_timestamp() - make_interval(secs => ${DEAD_MS / 1000})`;
    if (others.length > 0) {
      throw new Error(
        `Cannot join the fleet: its members keep results in a folder that all of them see, and ` +
          `${folder} is another; name that one with --output-path, or use a bucket (--s3-bucket)`,
      );
    }
    await writeFile(path, mark, { mode: PRIVATE_FILE });
  });
}
