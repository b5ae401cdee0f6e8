/**
 * Runs the numeric tests through Dawn (`deno task test:dawn`; takes paths and the options of `deno test`).
 *
 * What they need is fetched once: the addon into Deno's cache of packages, and, where no driver of this machine
 * satisfies Dawn, Mesa's software driver from Debian unstable into a folder of our own. The latter needs apt-get and
 * dpkg-deb, neither root nor an installation: Deno is started with the C library that the driver wants.
 */
import { join } from "node:path";
import { NoAdapterError } from "../runtime/errors.ts";
import { openDevice } from "../runtime/open_device.ts";
import { fetchDawn } from "./fetch_dawn.ts";

/** The folder of the repository. */
const ROOT = new URL("../", import.meta.url);

/** Where a device computes. */
const NUMERIC = [
  "runtime",
  "models",
  "engine",
  "tests/large_checkpoint_test.ts",
  "tests/large_tensors_test.ts",
  "tests/components",
  "tests/flux2",
  "tests/wan",
  "tests/z_image",
  "tests/wgsl_expanded_test.ts",
];

/** A Deno started through another loader is not its own executable. */
const DENO = Deno.env.get("DENOISE_DENO") ?? Deno.execPath();

async function main(args: readonly string[]): Promise<number> {
  await fetchDawn();
  const deno = await hasAdapter() ? DENO : await denoWithMesa();
  const paths = args.some((arg) => !arg.startsWith("-")) ? [] : NUMERIC;
  return await run(deno, ["test", "-A", "--no-check", ...args, ...paths], {
    DENOISE_GPU_BACKEND: "dawn",
    DENOISE_DENO: deno,
  });
}

/** Whether Dawn finds a driver on this machine as it is. */
async function hasAdapter(): Promise<boolean> {
  try {
    (await openDevice({ backend: "dawn" })).destroy();
    return true;
  } catch (error) {
    if (error instanceof NoAdapterError) return false;
    throw error;
  }
}

/** Path of a script that starts Deno on Mesa's newest software driver, which is fetched when it is not there. */
async function denoWithMesa(): Promise<string> {
  const cache = Deno.env.get("XDG_CACHE_HOME") || join(Deno.env.get("HOME") ?? "", ".cache");
  const folder = join(cache, "denoise", "mesa");
  const script = join(folder, "deno");
  if (await exists(script)) return script;
  const { os, arch } = Deno.build;
  const mirror = os === "linux" && arch === "x86_64" ? await debianMirror() : undefined;
  if (mirror === undefined) {
    throw new NoAdapterError(
      "Cannot test through Dawn: no driver of this machine satisfies it, and the one that would is fetched on Debian " +
        "for x86-64 only; install a GPU's driver, or Mesa 25 or later",
    );
  }
  console.error(
    `Fetching Mesa's software driver from Debian unstable into ${folder}, once (66 MB)`,
  );
  await Deno.mkdir(join(folder, "lists", "partial"), { recursive: true });
  await Deno.mkdir(join(folder, "cache", "archives", "partial"), { recursive: true });
  const sources = join(folder, "unstable.sources");
  await Deno.writeTextFile(
    sources,
    `Types: deb\nURIs: ${mirror}\nSuites: sid\nComponents: main\n` +
      "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n",
  );
  const options = [
    `Dir::Etc::sourcelist=${sources}`,
    "Dir::Etc::sourceparts=-",
    `Dir::State::lists=${join(folder, "lists")}`,
    // As if nothing were installed, so that every library that the driver needs comes along.
    "Dir::State::status=/dev/null",
    `Dir::Cache=${join(folder, "cache")}`,
    "APT::Sandbox::User=",
    "APT::Install-Recommends=false",
    "Debug::NoLocking=true",
  ].flatMap((option) => ["-o", option]);
  await must("apt-get", [...options, "-qq", "update"]);
  await must("apt-get", [
    ...options,
    "-qq",
    "-y",
    "--download-only",
    "install",
    "mesa-vulkan-drivers",
  ]);
  const archives = join(folder, "cache", "archives");
  const root = join(folder, "root");
  for await (const { name } of Deno.readDir(archives)) {
    if (name.endsWith(".deb")) await must("dpkg-deb", ["-x", join(archives, name), root]);
  }
  await Deno.remove(archives, { recursive: true });
  const libraries = join(root, "usr", "lib", "x86_64-linux-gnu");
  const driver = join(folder, "driver.json");
  await Deno.writeTextFile(
    driver,
    JSON.stringify({
      file_format_version: "1.0.0",
      ICD: { api_version: "1.4.0", library_path: join(libraries, "libvulkan_lvp.so") },
    }),
  );
  await Deno.writeTextFile(
    script,
    `#!/bin/sh\nexport VK_DRIVER_FILES='${driver}' DENO_WEBGPU_BACKEND=vulkan\n` +
      `exec '${libraries}/ld-linux-x86-64.so.2' --library-path '${libraries}' '${DENO}' "$@"\n`,
    { mode: 0o755 },
  );
  return script;
}

/** The mirror that apt-get is told to use for Debian; undefined where there is none. */
async function debianMirror(): Promise<string | undefined> {
  try {
    const args = ["indextargets", "--format", "$(ORIGIN) $(RELEASE) $(REPO_URI)"];
    const { stdout } = await new Deno.Command("apt-get", { args, stderr: "null" }).output();
    return mirrorOf(new TextDecoder().decode(stdout));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** The address in the first line of a release of Debian; updates and security fixes may lie elsewhere. */
export function mirrorOf(targets: string): string | undefined {
  return /^Debian [a-z]+ (\S+)$/m.exec(targets)?.[1];
}

async function must(command: string, args: string[]): Promise<void> {
  if (await run(command, args) === 0) return;
  throw new Error(`Cannot fetch Mesa's software driver: ${command} ${args.at(-1)} failed`);
}

async function run(command: string, args: string[], env: Record<string, string> = {}) {
  const child = new Deno.Command(command, { args, cwd: ROOT, env, stdin: "null" }).spawn();
  return (await child.status).code;
}

async function exists(path: string): Promise<boolean> {
  try {
    await Deno.stat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

if (import.meta.main) {
  try {
    Deno.exit(await main(Deno.args));
  } catch (error) {
    console.error((error as Error).message);
    Deno.exit(1);
  }
}
