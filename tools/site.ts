/** `deno task site [FOLDER] [ADDRESS]` packs the library for browsers, and pages that need no server, into `dist/site` for any static host. */

import { appFiles } from "../server/playground/app.ts";
import { STYLES } from "../server/playground/sources.ts";
import { DENO, importMap, listTree, ROOT } from "./root.ts";

/** What a tab has in the place of what. */
export const SWAPS: Readonly<Record<string, string>> = {
  "platform/mod.ts": "browser/platform.ts",
  "runtime/device/backends/dawn.ts": "browser/dawn.ts",
  "media/video/mod.ts": "browser/video.ts",
  "media/isolated/images.ts": "browser/playground/images.ts",
  "server/inputs/references.ts": "browser/playground/inputs.ts",
  "hub/lora_file.ts": "browser/lora_file.ts",
  "models/tokenizers/clip/merges.ts": "browser/clip_merges.ts",
};

/** Modules that pages and workers load, by the name of their bundle; all lie in one folder. */
export const ENTRIES: Readonly<Record<string, string>> = {
  "denoise.js": "browser/mod.ts",
  "worker.js": "browser/worker.ts",
  "video_file.js": "browser/video_file.ts",
  "video_reader.js": "browser/video_reader.ts",
  "report.js": "browser/report.ts",
  "report_worker.js": "browser/report_worker.ts",
};

/** The page, of which the tab fetches parts when they are needed. */
const PAGE = { "playground.js": "browser/playground/playground.ts" };

const BUNDLED = "models/bundled/";

/** A module of Node that a script loads at once. */
const NODE_IMPORT = /\b(?:from|import)\s*"(node:[\w/]+)"/;

/** The import map of a bundle: packages by their versions, and modules that stand for others. */
function importsWith(swapped: Readonly<Record<string, string>>): Record<string, string> {
  const packages = Object.entries(importMap()).flatMap(([name, target]) => [
    [name, target],
    [`${name}/`, `${target.replace("npm:", "npm:/")}/`],
  ]);
  const swaps = Object.entries(swapped).map(([from, to]) => [
    new URL(from, ROOT).href,
    new URL(to, ROOT).href,
  ]);
  return Object.fromEntries([...packages, ...swaps]);
}

interface BundleOptions {
  readonly platform?: "browser" | "deno";
  /** Modules that stand for others. */
  readonly swaps?: Readonly<Record<string, string>>;
  /** Whether what is imported when it is needed gets files of its own, beside the bundle. */
  readonly splits?: boolean;
}

/**
 * Bundles entries, given by the names of their bundles, each with all that it needs and for browsers by default.
 * @throws {Error} with what the bundler says
 */
export async function bundleAll(
  entries: Readonly<Record<string, string>>,
  folder: string,
  { platform = "browser", swaps = SWAPS, splits = false }: BundleOptions = {},
): Promise<void> {
  const made = await Deno.makeTempDir();
  try {
    const map = `${made}/imports.json`;
    await Deno.writeTextFile(map, JSON.stringify({ imports: importsWith(swaps) }));
    const { success, stderr } = await new Deno.Command(DENO, {
      args: [
        ...["bundle", "--quiet", "--no-lock", "--platform", platform, "--minify"],
        ...["--import-map", map, "--outdir", made, ...splits ? ["--code-splitting"] : []],
        ...Object.values(entries),
      ],
      cwd: ROOT,
      stdout: "null",
      stderr: "piped",
    }).output();
    if (!success) {
      const paths = Object.values(entries).join(", ");
      throw new Error(`Cannot bundle ${paths}: ${new TextDecoder().decode(stderr)}`);
    }
    for (const { name } of platform === "browser" ? Deno.readDirSync(made) : []) {
      if (!name.endsWith(".js")) continue;
      const [, lacked] = NODE_IMPORT.exec(await Deno.readTextFile(`${made}/${name}`)) ?? [];
      if (lacked === undefined) continue;
      throw new Error(
        `Cannot bundle ${name} for browsers: it imports ${lacked}, which tabs lack; import less, or add a row to SWAPS`,
      );
    }
    await Deno.mkdir(folder, { recursive: true });
    const base = commonFolder(Object.values(entries)).length;
    for (const [name, entry] of Object.entries(entries)) {
      await Deno.copyFile(`${made}/${entry.slice(base).replace(/ts$/, "js")}`, `${folder}/${name}`);
    }
    for (const { name } of splits ? Deno.readDirSync(made) : []) {
      if (name.endsWith(".js")) await Deno.copyFile(`${made}/${name}`, `${folder}/${name}`);
    }
  } finally {
    await Deno.remove(made, { recursive: true });
  }
}

/** The folder that has all of the files, "" or with a slash at its end: bundles lie as their entries do from there. */
function commonFolder(paths: readonly string[]): string {
  let common = paths[0]!.replace(/[^/]*$/, "");
  while (!paths.every((path) => path.startsWith(common))) {
    common = common.replace(/[^/]*\/$/, "");
  }
  return common;
}

/** Copies the bundled model, with a list of its files for the library. */
async function copyModel(folder: string): Promise<void> {
  const paths = listTree(BUNDLED, [".json", ".safetensors"]);
  const files = await Promise.all(paths.map(async (path) => {
    const bytes = await Deno.readFile(new URL(path, ROOT));
    const own = path.slice(BUNDLED.length);
    const to = `${folder}/${own}`;
    await Deno.mkdir(to.replace(/\/[^/]*$/, ""), { recursive: true });
    await Deno.writeFile(to, bytes);
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    return { path: own, size: bytes.byteLength, sha256: digest.toHex() };
  }));
  await Deno.writeTextFile(`${folder}/files.json`, JSON.stringify(files));
}

/** Makes the site in a folder; `issues` is where reports of GPUs may be posted, such as `https://…/issues/new`. */
export async function makeSite(folder: string, issues = ""): Promise<void> {
  // Bundles of one folder at a time: they name their parts by where they lie.
  for (const entries of [ENTRIES, PAGE]) await bundleAll(entries, folder, { splits: true });
  await Deno.writeTextFile(`${folder}/playground.css`, Object.values(STYLES).join("\n"));
  for (const [name, [, bytes]] of appFiles(".")) await Deno.writeFile(`${folder}/${name}`, bytes);
  await copyModel(`${folder}/bundled`);
  await Deno.copyFile(
    new URL("models/tokenizers/clip/merges.txt", ROOT),
    `${folder}/clip_merges.txt`,
  );
  for (const path of listTree("browser", [".html"])) {
    const text = await Deno.readTextFile(new URL(path, ROOT));
    await Deno.writeTextFile(
      `${folder}/${path.slice("browser/".length)}`,
      text.replace("ADDRESS-OF-ISSUES", issues),
    );
  }
}

if (import.meta.main) {
  const [folder = "dist/site", issues] = Deno.args;
  await makeSite(folder, issues);
  console.log(`Made ${folder}: put it on any static host`);
}
