import { existsSync } from "node:fs";

export const ROOT: URL = new URL("../", import.meta.url);

/** The Deno that runs this; where another loader started it, the launcher tells where it is. */
export const DENO: string = Deno.env.get("DENOISE_DENO") ?? Deno.execPath();

/** Folders that hold no source of ours; folders whose name begins with a dot are skipped too. */
const SKIPPED = new Set(["node_modules", "dist", "coverage"]);

/** Files below a folder of the repository ("" for all) whose names end so, in order; none where there is no folder. */
export function listTree(folder: string, endings: readonly string[]): string[] {
  const paths: string[] = [];
  const walk = (prefix: string) => {
    for (const entry of Deno.readDirSync(new URL(prefix, ROOT))) {
      const path = prefix + entry.name;
      if (entry.isDirectory) {
        if (!entry.name.startsWith(".") && !SKIPPED.has(entry.name)) walk(`${path}/`);
      } else if (endings.some((ending) => entry.name.endsWith(ending))) paths.push(path);
    }
  };
  const start = folder === "" || folder.endsWith("/") ? folder : `${folder}/`;
  if (exists(start)) walk(start);
  return paths.sort();
}

/** The text of every file of {@linkcode listTree}, by its path. */
export function readTree(folder: string, endings: readonly string[]): Map<string, string> {
  return new Map(
    listTree(folder, endings).map((path) => [path, Deno.readTextFileSync(new URL(path, ROOT))]),
  );
}

export function exists(path: string): boolean {
  return existsSync(new URL(path || ".", ROOT));
}

export function importMap(): Record<string, string> {
  const config: unknown = JSON.parse(Deno.readTextFileSync(new URL("deno.json", ROOT)));
  return (config as { imports?: Record<string, string> }).imports ?? {};
}
