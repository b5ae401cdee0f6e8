/**
 * `deno task compile` builds `dist/denoise`; options of `deno compile` (`--target …`) are passed on. Workers are started by
 * URL, so the module graph lacks them, and they are looked for here.
 */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { DENO, listTree, ROOT } from "./root.ts";

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

/** Lists of numbers beside the tests of a package, which Deno 2.9 takes for one sum and overflows its stack: denoland/deno#36746. */
const UNREADABLE = ["bintrees", "test"] as const;

/** The paths of Deno's cache of npm packages that are not embedded. */
export function excludedPaths(npmCache: string): string[] {
  const [name, folder] = UNREADABLE;
  return readdirSync(npmCache).map((registry) => join(npmCache, registry, name))
    .filter((path) => existsSync(path))
    .flatMap((path) => readdirSync(path).map((version) => join(path, version, folder)))
    .filter((path) => existsSync(path));
}

/** The arguments of Deno that build the executable; `options` are for it, too. */
export async function compileArguments(options: readonly string[]): Promise<string[]> {
  const { npmCache } = JSON.parse(await printedBy("info", "--json")) as { npmCache: string };
  await printedBy("cache", "cli.ts");
  return [
    ...["compile", "-A"],
    ...(options.includes("--output") ? [] : ["--output", "dist/denoise"]),
    ...embeddedPaths().flatMap((path) => ["--include", path]),
    ...excludedPaths(npmCache).flatMap((path) => ["--exclude", path]),
    ...options,
    "cli.ts",
  ];
}

async function printedBy(...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(DENO, { args, cwd: ROOT }).output();
  if (!success) throw new Error(`Cannot compile: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}

if (import.meta.main) {
  const args = await compileArguments(Deno.args);
  const { code } = await new Deno.Command(DENO, { args, cwd: ROOT }).spawn().status;
  Deno.exit(code);
}
