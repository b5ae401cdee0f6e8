/**
 * From a clone to the first image, on a machine that has Node with npm and a Vulkan driver but neither Deno nor
 * anything of ours.
 *
 *     deno run -A tools/bench/first_image.ts
 */

import { dirname, join } from "node:path";
import type { Figures } from "./figures.ts";
import { ROOT } from "./machine.ts";

/** Variables that would let the copy find what this machine has cached, by name or beginning. */
const HIDDEN = /^(?:DENO_|DENOISE_|XDG_|HOME$|USERPROFILE$|PWD$|NPM_CONFIG_CACHE$)/i;

/**
 * Copies the sources, starts the launcher with an empty home and times it until the image is there.
 *
 * @throws {Error} when the launcher fails, with its last words
 */
export async function benchFirstImage(log: (line: string) => void): Promise<Figures> {
  const folder = await Deno.makeTempDir({ prefix: "denoise-first-" });
  try {
    const clone = join(folder, "clone");
    const files = await copyTree(clone);
    log(`first image: ${files} files copied, fetching everything else anew`);
    const home = join(folder, "home");
    await Deno.mkdir(home);
    await copyNpmSettings(home);
    const path = await pathWithoutDeno(join(folder, "bin"));
    const image = join(folder, "first.png");
    const start = performance.now();
    const { code, stderr } = await new Deno.Command(join(clone, "denoise"), {
      args: ["generate", "--prompt", "a red circle on a blue background", "--output", image],
      cwd: clone,
      clearEnv: true,
      env: { ...visibleEnvironment(), HOME: home, PATH: path },
      stdin: "null",
      stdout: "null",
    }).output();
    const seconds = (performance.now() - start) / 1000;
    const words = new TextDecoder().decode(stderr).trim();
    if (code !== 0) {
      throw new Error(`Cannot make a first image: the launcher ended with ${code}: ${words}`);
    }
    if ((await Deno.stat(image)).size === 0) {
      throw new Error("Cannot make a first image: the file is empty");
    }
    log(words);
    return {
      "first image": { value: seconds, unit: "s" },
      "first image files fetched": { value: await sizeOf(home) / 1e6, unit: "MB" },
    };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Copies what a clone would hold: files that git tracks, and new ones that it does not ignore. */
async function copyTree(to: string): Promise<number> {
  const { success, stdout } = await new Deno.Command("git", {
    args: ["ls-files", "-z", "--cached", "--others", "--exclude-standard"],
    cwd: ROOT,
  }).output();
  if (!success) throw new Error(`Cannot list the sources: git ls-files failed in ${ROOT}`);
  let count = 0;
  for (const file of new TextDecoder().decode(stdout).split("\0")) {
    if (file === "") continue;
    await Deno.mkdir(join(to, dirname(file)), { recursive: true });
    try {
      await Deno.copyFile(join(ROOT, file), join(to, file));
      count++;
    } catch (error) {
      // A tracked file that was deleted.
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return count;
}

/** Which registry npm asks is a setting of the machine, not something to fetch. */
async function copyNpmSettings(home: string): Promise<void> {
  try {
    await Deno.copyFile(join(Deno.env.get("HOME") ?? "", ".npmrc"), join(home, ".npmrc"));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

function visibleEnvironment(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(Deno.env.toObject()).filter(([name]) => !HIDDEN.test(name)),
  );
}

/** PATH with every program but Deno: a folder that has one is replaced by links to the rest of it. */
async function pathWithoutDeno(folder: string): Promise<string> {
  const places = (Deno.env.get("PATH") ?? "").split(":").filter((place) => place !== "");
  const kept: string[] = [];
  for (const [index, place] of places.entries()) {
    const names = await namesIn(place);
    if (!names.includes("deno")) {
      kept.push(place);
      continue;
    }
    const links = join(folder, String(index));
    await Deno.mkdir(links, { recursive: true });
    for (const name of names) {
      if (name !== "deno") await Deno.symlink(join(place, name), join(links, name));
    }
    kept.push(links);
  }
  return kept.join(":");
}

/** Bytes of all files below a folder: what was fetched and unpacked. */
async function sizeOf(folder: string): Promise<number> {
  let bytes = 0;
  for await (const entry of Deno.readDir(folder)) {
    const path = join(folder, entry.name);
    if (entry.isDirectory) bytes += await sizeOf(path);
    else if (entry.isFile) bytes += (await Deno.stat(path)).size;
  }
  return bytes;
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

if (import.meta.main) {
  const { "first image": figure } = await benchFirstImage((line) => console.error(line));
  console.log(`${figure!.value.toFixed(1)} s from clone to first image`);
}
