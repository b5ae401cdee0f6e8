/**
 * `deno task compile` builds `dist/denoise`; options of `deno compile` (`--target …`) are passed on. Workers are started by
 * URL, so the module graph lacks them, and they are looked for here.
 */

import { listTree, ROOT } from "./root.ts";

const PROGRAM = ["server", "engine", "models", "runtime", "media", "hub"];

/** Read at run time as they are. */
const DATA = ["models/bundled"];

/** Whether a file is needed at run time without being imported: `worker.ts`, `x_worker.ts`. */
export function isReadAtRunTime(path: string): boolean {
  return /(^|\/|_)worker\.ts$/.test(path);
}

/** The paths to embed, relative to the repository, in order. */
export function embeddedPaths(): string[] {
  const workers = PROGRAM.flatMap((folder) => listTree(folder, ["worker.ts"]));
  return [...workers.filter(isReadAtRunTime), ...DATA];
}

if (import.meta.main) {
  const include = embeddedPaths().flatMap((path) => ["--include", path]);
  const { code } = await new Deno.Command(Deno.execPath(), {
    args: ["compile", "-A", "--output", "dist/denoise", ...include, ...Deno.args, "cli.ts"],
    cwd: ROOT,
  }).spawn().status;
  Deno.exit(code);
}
