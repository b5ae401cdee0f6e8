/** What the emulated systems have in common: roots of Debian's packages, in namespaces that need no rights. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { decodePng } from "../../media/png_decode.ts";
import { DENO, ROOT } from "../root.ts";

/** A system that this machine is not. */
export interface System {
  /** Why it cannot be run here; nothing where it can. */
  obstacle(): string | undefined;
  /** Fetches what it needs, once, runs all checks or those named, and gives an exit status. */
  test(args: readonly string[]): Promise<number>;
}

/** A check of a system. */
export interface Step {
  readonly name: string;
  /** Gives the reason where it failed. */
  run(): Promise<string | undefined>;
}

/** Checks by name, and what runs a command and tests of the repository; each gives an exit status. */
interface Checks {
  readonly groups: Readonly<Record<string, readonly Step[]>>;
  run(...args: string[]): Promise<number>;
  tests(...paths: string[]): Promise<number>;
}

/** Runs the checks that arguments name, all of them, a command after `run`, or the tests under paths. */
export async function runChecks(
  { groups, run, tests }: Checks,
  args: readonly string[],
): Promise<number> {
  if (args[0] === "run") return await run(...args.slice(1));
  if (args.some((name) => groups[name] === undefined)) return await tests(...args);
  const names = args.length > 0 ? args : Object.keys(groups);
  return await runSteps(names.flatMap((name) => groups[name]!));
}

/** Runs checks one after the other, and gives 0 where all held, else 1. */
async function runSteps(steps: readonly Step[]): Promise<number> {
  let failed = 0;
  for (const { name, run } of steps) {
    const start = performance.now();
    const reason = await run();
    const seconds = Math.round((performance.now() - start) / 1000);
    console.log(
      reason === undefined
        ? `ok     ${name} (${seconds} s)`
        : `FAILED ${name} (${seconds} s): ${reason}`,
    );
    if (reason !== undefined) failed++;
  }
  return failed === 0 ? 0 : 1;
}

/** A check that a program ends with an exit status. */
export function expectStatus(
  name: string,
  wanted: number,
  run: () => Promise<number>,
): Step {
  return {
    name,
    run: async () => {
      const code = await run();
      return code === wanted ? undefined : `exit status ${code}, not ${wanted}`;
    },
  };
}

const NAMESPACES = [
  ...["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"],
];

/** A command that runs a shell script as root of namespaces of its own. */
export function inNamespaces(script: string, args: readonly string[]): Deno.Command {
  return new Deno.Command("unshare", {
    args: [...NAMESPACES, "sh", "-c", script, "sh", ...args],
    stdin: "null",
  });
}

/** Why no root of Debian can be had here, or `script` does not run in namespaces; nothing where all is well. */
export function namespaceObstacle(script: string, what: string): string | undefined {
  if (Deno.build.target !== "x86_64-unknown-linux-gnu" || !existsSync("/usr/bin/apt-get")) {
    return "it is fetched on Debian for x86-64 only";
  }
  try {
    const { success } = new Deno.Command("unshare", {
      args: [...NAMESPACES, "sh", "-c", script],
      stdin: "null",
      stderr: "null",
    }).outputSync();
    return success ? undefined : `this system does not allow ${what}`;
  } catch {
    return "there is no unshare here";
  }
}

/** Makes the links of a root that Debian's own installer would make. */
export async function linkFolders(root: string): Promise<void> {
  for (const name of ["bin", "sbin", "lib", "lib64"]) {
    const path = join(root, name);
    if (!existsSync(path)) await Deno.symlink(join("usr", name), path);
  }
}

/** Where this machine keeps a package of npm, which is fetched before. */
export async function npmPackage(name: string, version: string): Promise<string> {
  await must("cache", "--no-config", "--no-lock", `npm:${name}@${version}`);
  const cache = await npmCache();
  return readdirSync(cache).map((registry) => join(cache, registry, name, version))
    .find((path) => existsSync(path))!;
}

/** Deno's program for another platform. */
export function denoFor(platform: string): Promise<string> {
  return npmPackage(`@deno/${platform}`, Deno.version.deno);
}

/** Where this machine's Deno keeps packages of npm, with all that denoise needs. */
export async function filledNpmCache(): Promise<string> {
  await must("cache", "cli.ts");
  return await npmCache();
}

async function npmCache(): Promise<string> {
  return (JSON.parse(await must("info", "--json")) as { npmCache: string }).npmCache;
}

/** What this machine's Deno prints. @throws {Error} where it fails */
export async function must(...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(DENO, { args, cwd: ROOT }).output();
  if (success) return new TextDecoder().decode(stdout);
  throw new Error(`Cannot go on: deno ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
}

/** What two processors may give otherwise, in units of a byte. */
const MAX_DIFFERENCE = 1;

/** A check that an image equals the one that this machine makes with the same arguments of `generate`. */
export function sameImage(
  name: string,
  args: readonly string[],
  make: () => Promise<{ code: number; path: string }>,
): Step {
  return {
    name: `${name}, compared with this machine's`,
    run: async () => {
      const { code, path } = await make();
      if (code !== 0) return `exit status ${code}`;
      const own = await Deno.makeTempFile({ suffix: ".png" });
      try {
        await must("run", "-A", "cli.ts", "generate", ...args, "--output", own);
        const difference = await largestDifference(path, own);
        console.log(`The largest difference is ${difference} of 255`);
        return difference <= MAX_DIFFERENCE ? undefined : `it differs by ${difference} of 255`;
      } finally {
        await Deno.remove(own);
      }
    },
  };
}

async function largestDifference(...paths: [string, string]): Promise<number> {
  const [one, other] = await Promise.all(
    paths.map(async (path) => decodePng(await Deno.readFile(path))),
  );
  if (one!.data.length !== other!.data.length) return Infinity;
  return one!.data.reduce((most, value, i) => Math.max(most, Math.abs(value - other!.data[i]!)), 0);
}
