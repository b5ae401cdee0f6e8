/** Names of uploads, made harmless. */

/** Longest name that is kept, in characters. */
const MAX_LENGTH = 100;

/**
 * Makes a name that a client sent safe for a folder of ours: no path, no device, no hidden file.
 *
 * @returns letters, digits, `_`, `-` and `.`, not first or last; `upload` where nothing is left
 */
export function sanitizeFileName(name: string): string {
  // A long row of accents would take the square of its length.
  const last = name.slice(-4 * MAX_LENGTH).normalize("NFKD").split(/[/\\]/).at(-1) ?? "";
  const safe = last.replaceAll(/[^A-Za-z0-9._-]+/g, "_").replaceAll(/_+/g, "_");
  const trimmed = safe.slice(-MAX_LENGTH).replaceAll(/^[._-]+|[._-]+$/g, "");
  return trimmed || "upload";
}
