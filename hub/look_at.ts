/** What a path names. */
import { describeFileError } from "./json_file.ts";

/** Tells a folder from a file, and either from nothing. */
export async function lookAt(
  path: string,
  what: "LoRA" | "model",
): Promise<"folder" | "file" | "nothing"> {
  try {
    return (await Deno.stat(path)).isDirectory ? "folder" : "file";
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound || cause instanceof Deno.errors.NotADirectory) {
      return "nothing";
    }
    throw new Error(`Cannot open ${what} ${path}: ${describeFileError(cause)}`, { cause });
  }
}
