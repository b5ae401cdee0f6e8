/** What a run of the benches is made on, and with which sources. */

import { fileURLToPath } from "node:url";
import { inspectDevice } from "../../engine/mod.ts";
import type { BenchDevice } from "./history.ts";

/** The folder of the repository. */
export const ROOT: string = fileURLToPath(new URL("../../", import.meta.url));

/** The folder of the bundled model. */
export const BUNDLED: string = fileURLToPath(new URL("../../models/bundled/", import.meta.url));

/** The Deno that runs this; the launcher tells where it is when another loader started it. */
export function denoPath(): string {
  return Deno.env.get("DENOISE_DENO") ?? Deno.execPath();
}

/**
 * The adapter that the benches get.
 *
 * @throws {NoAdapterError} when there is none
 */
export async function describeDevice(): Promise<BenchDevice> {
  const { adapter, isSoftware } = await inspectDevice();
  return { adapter, isSoftware, cores: navigator.hardwareConcurrency };
}

/** The abbreviated commit, with `+` when files differ from it; null where there is none. */
export async function currentCommit(): Promise<string | null> {
  const commit = await git("rev-parse", "--short", "HEAD");
  if (commit === undefined) return null;
  return commit + (await git("status", "--porcelain") === "" ? "" : "+");
}

/** Standard output of git, trimmed; undefined when it fails or is not there. */
async function git(...args: string[]): Promise<string | undefined> {
  try {
    const command = new Deno.Command("git", { args, cwd: ROOT, stderr: "null" });
    const { success, stdout } = await command.output();
    return success ? new TextDecoder().decode(stdout).trim() : undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
