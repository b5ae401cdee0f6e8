/** Why something could not be written, in words. */

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: "no space is left on the disk; free some",
  EDQUOT: "this user's share of the disk is used up; free some",
  EROFS: "the disk is read-only; choose another folder",
  EACCES: "this user may not write there; choose another folder",
  EPERM: "this user may not write there; choose another folder",
  EISDIR: "it is a folder; name a file in it",
  ENOTDIR: "a part of its path is a file; choose another folder",
  EEXIST: "a part of its path is a file; choose another folder",
  ENOENT: "its folder is not there and cannot be made; choose another one",
  ENAMETOOLONG: "its name is too long; choose a shorter one",
  EMFILE: "too many files are open; raise the limit of open files",
};

/** What SQLite and FFmpeg say of a disk that has no room. */
const FULL = /^database or disk is full$|No space left on device/;

/** Whether the file system refused something: an error of `node:fs`, or what others say of a full disk. */
export function isWriteError(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  // Refusals of the program have codes of their own, in lower case.
  return typeof code === "string" && /^E[A-Z]/.test(code) || FULL.test(error.message);
}

/** Whether a file is not there, or no longer a folder where it was, as `node:fs` and Deno say it. */
export function isGone(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return code === "ENOENT" || code === "ENOTDIR";
}

/** Why the file system refused a write, such as `no space is left on the disk; free some`: words that follow a colon. */
export function describeWriteError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as { code?: unknown };
  if (FULL.test(error.message)) return REASONS["ENOSPC"]!;
  return (typeof code === "string" ? REASONS[code] : undefined) ?? error.message;
}
