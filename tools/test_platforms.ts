/**
 * Runs denoise on systems that this machine is not (`deno task test:platforms windows [PATH…]`): Windows' Deno under Wine,
 * with Vulkan passed through to Mesa's software driver, in a root of Debian's packages that a user namespace makes its own.
 * Where no path is given: the launcher, an image, a refused command line, and the unit tests of the folders that touch the system.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { driversFolder, unpackPackages } from "./drivers/debian.ts";
import { DENO, ROOT } from "./root.ts";
import { fileURLToPath } from "node:url";

/** Debian's release with Wine 10. */
const SUITE = "trixie";
const PACKAGES = [
  ...["wine", "wine64", "mesa-vulkan-drivers", "libvulkan1"],
  // Without a display Wine's Vulkan refuses its surfaces, and wgpu finds no adapter.
  ...["xvfb", "xkb-data", "x11-xkb-utils", "dash", "coreutils"],
];
const WINDOWS_DENO = `npm:@deno/win32-x64@${Deno.version.deno}`;

/** Where a library says that it is Wine's own, in bytes. */
const WINE_MARK = { at: 64, length: 32 };

const TESTS = ["commands", "hub", "media", "generation", "library", "engine", "server"];

/** Runs in the root, with the repository and Deno's packages bound into it. */
const INSIDE = `set -e
root=$1 repository=$2 packages=$3 deno=$4; shift 4
mkdir -p "$root/proc" && mount -t proc proc "$root/proc"
for folder in dev sys; do mkdir -p "$root/$folder"; mount --rbind /$folder "$root/$folder"; done
mkdir -p "$root/tmp" "$root/root" "$root/run" "$root/denoise" "$root/packages/npm" "$root/deno"
mount --bind "$repository" "$root/denoise"
mount --bind "$packages" "$root/packages/npm"
mount --bind "$deno" "$root/deno"
exec chroot "$root" env -i PATH=/usr/lib/wine:/usr/bin WINELOADER=/usr/lib/wine/wine64 HOME=/root LANG=C.UTF-8 DISPLAY=:77 WINEDEBUG=-all NO_COLOR=1 \\
  WINEDLLOVERRIDES=mscoree,mshtml= VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json DENO_WEBGPU_BACKEND=vulkan \\
  DENO_DIR='Z:\\packages' DENOISE_DENO='Z:\\deno\\deno.exe' DENOISE_CACHE=off DENOISE_NO_SERVER=true \\
  sh -c 'Xvfb :77 -screen 0 640x480x24 >/dev/null 2>&1 & display=$!
    cd /denoise; wine64 "$@" || status=$?; kill $display 2>/dev/null; exit \${status:-0}' sh "$@"`;

/** A root with Wine, and Windows' Deno; undefined where Debian's packages or user namespaces cannot be had. */
async function prepare(): Promise<((...args: string[]) => Promise<number>) | undefined> {
  const folder = join(driversFolder(), "wine");
  const root = join(folder, "root");
  if (!existsSync(join(folder, "ready"))) {
    console.error(`Fetching Wine from Debian ${SUITE} into ${folder}, once (about 400 MB)`);
    if (
      await unpackPackages({ folder, packages: PACKAGES, suite: SUITE, complete: true }) ===
        undefined
    ) {
      return undefined;
    }
    // What Debian's own installer would make.
    for (const name of ["bin", "sbin", "lib", "lib64"]) {
      await Deno.symlink(join("usr", name), join(root, name));
    }
    const zlib = await Deno.readFile(join(root, "usr/x86_64-w64-mingw32/lib/zlib1.dll"));
    zlib.set(
      new TextEncoder().encode("Wine builtin DLL".padEnd(WINE_MARK.length, "\0")),
      WINE_MARK.at,
    );
    await Deno.writeFile(
      join(root, "usr/lib/x86_64-linux-gnu/wine/x86_64-windows/zlib1.dll"),
      zlib,
    );
    await Deno.writeTextFile(join(root, "etc/hosts"), "127.0.0.1 localhost\n::1 localhost\n");
    await Deno.writeTextFile(join(folder, "ready"), "");
  }
  await must("cache", "--no-config", "--no-lock", WINDOWS_DENO);
  await must("cache", "cli.ts");
  const { npmCache } = JSON.parse(await must("info", "--json"));
  const windowsDeno = readdirSync(npmCache)
    .map((registry) => join(npmCache, registry, "@deno", "win32-x64", Deno.version.deno))
    .find((path) => existsSync(path))!;
  return async (...args) => {
    const inside = ["sh", "-c", INSIDE, "sh", root, fileURLToPath(ROOT), npmCache, windowsDeno];
    const child = new Deno.Command("unshare", {
      args: ["--user", "--map-root-user", "--mount", "--pid", "--fork", ...inside, ...args],
      stdin: "null",
    }).spawn();
    return (await child.status).code;
  };
}

async function must(...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(DENO, { args, cwd: ROOT }).output();
  if (success) return new TextDecoder().decode(stdout);
  throw new Error(`Cannot go on: deno ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
}

async function main([system, ...paths]: readonly string[]): Promise<number> {
  if (system !== "windows") {
    console.error(`Cannot test on ${system ?? "nothing"}: there is windows`);
    return 2;
  }
  const wine = await prepare();
  if (!wine) {
    console.error("Cannot test on Windows: Wine is fetched on Debian for x86-64 only");
    return 1;
  }
  const tests = (...all: string[]) =>
    wine("Z:\\deno\\deno.exe", ...[
      "test",
      "-A",
      "--no-check",
      "--quiet",
      "--preload",
      "tools/wine.ts",
    ], ...all);
  if (paths.length > 0) return await tests(...paths);
  const launcher = (line: string) => wine("cmd", "/c", `denoise.cmd ${line}`);
  const image = 'generate "a blue star! & 100%" --num-inference-steps 2 -s 3 -o outputs\\wine.png';
  const steps: [string, number, () => Promise<number>][] = [
    ["the launcher", 0, () => launcher("--version")],
    ["a wrong command line", 2, () => launcher("frobnicate")],
    ["a name that Windows does not allow", 1, () => launcher("generate x -o a?b.png")],
    ["an image", 0, () => launcher(image)],
    ["the tests", 0, () => tests(...TESTS)],
  ];
  let failed = 0;
  for (const [name, wanted, run] of steps) {
    const code = await run();
    const isRight = code === wanted;
    console.log(
      `${isRight ? "ok    " : "FAILED"} ${name}${isRight ? "" : `: exit status ${code}`}`,
    );
    if (!isRight) failed++;
  }
  return failed === 0 ? 0 : 1;
}

if (import.meta.main) {
  try {
    Deno.exit(await main(Deno.args));
  } catch (error) {
    console.error((error as Error).message);
    Deno.exit(1);
  }
}
