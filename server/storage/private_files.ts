/** Files that nobody but the user who runs the server may read: prompts, images and uploads. */

import { closeSync, openSync } from "node:fs";

/** Mode of folders that are made. */
export const PRIVATE_FOLDER = 0o700;
/** Mode of files that are made. */
export const PRIVATE_FILE = 0o600;

/**
 * Makes a file that others make if it is missing, which would let everybody read it.
 *
 * @param path of a file; one that is there is left as it is
 * @throws {Error} when the file system refuses
 */
export function makePrivateFile(path: string): void {
  closeSync(openSync(path, "a", PRIVATE_FILE));
}
