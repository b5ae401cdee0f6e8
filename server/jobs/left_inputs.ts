/** Files of requests whose server was killed. */

import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { isEnd } from "./job.ts";
import type { JobStore } from "./job_store.ts";
import { InputFolder } from "../inputs/input_folder.ts";

/** How long a request may take to arrive, in milliseconds: until then it has no record. */
const MAX_ARRIVAL_MS = 24 * 60 * 60 * 1000;

/**
 * Removes the files of jobs that have ended, and of requests that never became jobs. Another server
 * may share the folder, and be in the middle of an upload.
 *
 * @param options when it is, and since when no other server has shared the folder, if that is known; both in
 * Unix milliseconds
 */
export async function removeLeftInputs(
  root: string,
  store: JobStore,
  { now = Date.now(), aloneSince = -Infinity }: { now?: number; aloneSince?: number } = {},
): Promise<void> {
  // What came before this server did, when there was no other, will never become a job.
  const before = Math.max(aloneSince, now - MAX_ARRIVAL_MS);
  const names = await readdir(root).catch(() => []);
  for (const name of names) {
    if (!/^(?:img|video)_[\w-]+$/.test(name)) continue;
    const status = (await store.get(name))?.status;
    const isLeft = status === undefined
      ? await stat(join(root, name)).then(({ mtimeMs }) => mtimeMs < before, () => false)
      : isEnd(status);
    if (isLeft) await new InputFolder(root, name).remove();
  }
}
