/** Whether files can be written, asked before a model works for them. */

import { accessSync, constants, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { describeWriteError } from "../generation/write_error.ts";

/** Refuses a path that could not be written to; writes nothing. */
export function checkOutput(path: string): void {
  try {
    if (statOf(path)?.isDirectory()) throw Object.assign(new Error(), { code: "EISDIR" });
    let existing = resolve(path);
    while (statOf(existing) === undefined && dirname(existing) !== existing) {
      existing = dirname(existing);
    }
    if (existing !== resolve(path) && !statOf(existing)?.isDirectory()) {
      throw Object.assign(new Error(), { code: "ENOTDIR" });
    }
    accessSync(existing, constants.W_OK);
  } catch (cause) {
    throw new Error(`Cannot write ${path}: ${describeWriteError(cause)}`, { cause });
  }
}

function statOf(path: string) {
  try {
    return statSync(path);
  } catch (error) {
    const { code } = error as { code?: unknown };
    // What lies in a file is not there either; the file itself is found on the way up.
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw error;
  }
}
