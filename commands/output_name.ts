/** Names of files that `generate` writes. */

import { accessSync, constants, statSync } from "node:fs";
import { dirname, extname, resolve } from "node:path";
import { UsageError } from "./failure.ts";
import { describeWriteError } from "../generation/write_error.ts";

const MAX_LENGTH = 150;

/** Characters of a name on NTFS at most. */
const MAX_WINDOWS_NAME = 255;

/** What `--output` names for standard output. */
export const STANDARD_OUTPUT = "-";

/** The files of a run: the name itself, or with `-0`, `-1`, … before its ending when there are more. */
export function outputPaths(path: string, count: number): string[] {
  if (count === 1) return [path];
  if (path === STANDARD_OUTPUT) {
    throw new UsageError(
      `Cannot write ${count} results to standard output: it takes one image; use --num-outputs 1`,
    );
  }
  const ending = extname(path);
  const stem = path.slice(0, path.length - ending.length);
  return Array.from({ length: count }, (_, index) => `${stem}-${index}${ending}`);
}

/** A file name for a prompt, such as `a_red_circle_20260102-030405_0a1b2c3d`, without an ending. */
export function nameForPrompt(prompt: string, now: Date, suffix: string): string {
  const two = (value: number) => String(value).padStart(2, "0");
  const date = `${now.getFullYear()}${two(now.getMonth() + 1)}${two(now.getDate())}`;
  const time = `${two(now.getHours())}${two(now.getMinutes())}${two(now.getSeconds())}`;
  const name = `${prompt.slice(0, 100)}_${date}-${time}_${suffix}`
    .normalize("NFKD")
    // deno-lint-ignore no-control-regex
    .replace(/[^\x00-\x7f]/g, "")
    .replace(/[^A-Za-z0-9._-]/g, "_")
    .replace(/_+/g, "_")
    .slice(0, MAX_LENGTH)
    .replace(/^[._]+|[._]+$/g, "");
  return name || "output";
}

/** Refuses a path that could not be written to; writes nothing. */
export function checkOutput(path: string): void {
  if (path === STANDARD_OUTPUT) return;
  if (Deno.build.os === "windows") checkWindowsName(path);
  try {
    if (statOf(path)?.isDirectory()) throw Object.assign(new Error(), { code: "EISDIR" });
    let existing = resolve(path);
    while (statOf(existing) === undefined && dirname(existing) !== existing) {
      existing = dirname(existing);
    }
    // On Windows the drive itself may be missing.
    const parent = statOf(existing);
    if (parent === undefined) throw Object.assign(new Error(), { code: "ENOENT" });
    if (existing !== resolve(path) && !parent.isDirectory()) {
      throw Object.assign(new Error(), { code: "ENOTDIR" });
    }
    accessSync(existing, constants.W_OK);
  } catch (cause) {
    throw new Error(`Cannot write ${path}: ${describeWriteError(cause)}`, { cause });
  }
}

/** Refuses a name that Windows cannot have, or takes for a device. */
export function checkWindowsName(path: string): void {
  const parts = path.replace(/^(?:\\\\\?\\)?(?:[A-Za-z]:)?/, "").split(/[\\/]/);
  for (const part of parts) {
    const sign = /[<>:"|?*\p{Cc}]/u.exec(part)?.[0];
    const device = /^(?:con|prn|aux|nul|com\d|lpt\d)(?=\.|$)/i.exec(part)?.[0];
    if (sign !== undefined) {
      throw new Error(`Cannot write ${path}: Windows allows no ${sign} in names; choose another`);
    }
    if (part.length > MAX_WINDOWS_NAME) {
      throw new Error(
        `Cannot write ${path}: a name of Windows has ${MAX_WINDOWS_NAME} characters at most, ` +
          `not ${part.length}; choose a shorter one`,
      );
    }
    if (device !== undefined) {
      throw new Error(
        `Cannot write ${path}: ${device} is a device of Windows; choose another name`,
      );
    }
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
