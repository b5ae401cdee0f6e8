/**
 * Runs denoise on systems that this machine is not (`deno task test:platforms windows [PATH…]`): Windows' Deno under Wine,
 * with Vulkan passed through to Mesa's software driver, in a root of Debian's packages that a user namespace makes its own.
 * Where no path is given: the launcher, an image, refused command lines, the page of a server (alone with `page`), and the
 * tests of what touches the system, of servers that are killed, and of downloads.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { driversFolder, unpackPackages } from "./drivers/debian.ts";
import { chromium } from "playwright-core";
import { DENO, ROOT } from "./root.ts";
import { fileURLToPath } from "node:url";

/** Debian's release with Wine 10. */
const SUITE = "trixie";
const PACKAGES = [
  ...["wine", "wine64", "mesa-vulkan-drivers", "libvulkan1"],
  // Without a display Wine's Vulkan refuses its surfaces, and wgpu finds no adapter.
  ...["xvfb", "xkb-data", "x11-xkb-utils", "dash", "coreutils"],
];
/** Port of the server whose page is drawn on. */
const PAGE_PORT = 30417;
const WINDOWS_DENO = `npm:@deno/win32-x64@${Deno.version.deno}`;

/** Where a library says that it is Wine's own, in bytes. */
const WINE_MARK = { at: 64, length: 32 };

const TESTS = [
  ...["commands", "hub", "media", "generation", "library", "engine", "server"],
  // A server as a process, killed in the midst of jobs, and downloads from a hub.
  ...["serve", "crash", "pull"].map((name) => `tests/e2e/${name}_test.ts`),
];

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
  DENO_DIR='Z:\\packages' DENOISE_DENO='Z:\\deno\\deno.exe' DENOISE_CACHE=off DENOISE_NO_SERVER=true DENOISE_TEST_PRELOAD='Z:\\denoise\\tools\\wine.ts' \\
  sh -c 'rm -f /tmp/.X77-lock /tmp/.X11-unix/X77
    Xvfb :77 -screen 0 640x480x24 >/dev/null 2>&1 & display=$!
    for _ in 1 2 3 4 5 6 7 8 9 10; do [ -S /tmp/.X11-unix/X77 ] && break; sleep 0.5; done
    # A registry that is killed while it is written is broken, so each run has a copy of its own.
    export WINEPREFIX=/root/prefix
    if [ ! -e /root/prefix.ready ]; then
      rm -rf /root/prefix
      wine64 wineboot -i && wineserver -w && touch /root/prefix.ready
    fi
    WINEPREFIX=$(mktemp -d); cp -a /root/prefix/. "$WINEPREFIX"
    cd /denoise; wine64 "$@" || status=$?
    wineserver -k 2>/dev/null; wineserver -w; kill $display 2>/dev/null
    rm -rf "$WINEPREFIX"; exit \${status:-0}' sh "$@"`;

/** A root with Wine, and Windows' Deno; undefined where Debian's packages or user namespaces cannot be had. */
async function prepare(): Promise<((...args: string[]) => Deno.ChildProcess) | undefined> {
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
  return (...args) => {
    const inside = ["sh", "-c", INSIDE, "sh", root, fileURLToPath(ROOT), npmCache, windowsDeno];
    const own = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"];
    return new Deno.Command("unshare", { args: [...own, ...inside, ...args], stdin: "null" })
      .spawn();
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
  const start = await prepare();
  if (!start) {
    console.error("Cannot test on Windows: Wine is fetched on Debian for x86-64 only");
    return 1;
  }
  const wine = async (...args: string[]) => (await start(...args).status).code;
  const tests = (...all: string[]) =>
    wine("Z:\\deno\\deno.exe", ...[
      "test",
      "-A",
      "--no-check",
      "--quiet",
      "--preload",
      "tools/wine.ts",
    ], ...all);
  const launcher = (line: string) => wine("cmd", "/c", `denoise.cmd ${line}`);
  if (paths[0] === "page") return await drawOnPage(start);
  if (paths[0] === "run") return await launcher(paths.slice(1).join(" "));
  if (paths.length > 0) return await tests(...paths);
  const image = 'generate "a blue star! & 100%" --num-inference-steps 2 -s 3 -o outputs\\wine.png';
  const steps: [string, number, () => Promise<number>][] = [
    ["the launcher", 0, () => launcher("--version")],
    ["a wrong command line", 2, () => launcher("frobnicate")],
    ["a name that Windows does not allow", 1, () => launcher("generate x -o a?b.png")],
    ["an image", 0, () => launcher(image)],
    ["the page of a server", 0, () => drawOnPage(start)],
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

/** Draws on the page of a server on that system, in a browser on this one. */
async function drawOnPage(start: (...args: string[]) => Deno.ChildProcess): Promise<number> {
  const executablePath = "/usr/bin/chromium";
  if (!existsSync(executablePath)) {
    console.error("Skipped the page: there is no Chromium here");
    return 0;
  }
  const url = `http://127.0.0.1:${PAGE_PORT}/`;
  const flags = `--port ${PAGE_PORT} --strict-ports --output-path outputs\\page`;
  const server = start("cmd", "/c", `denoise.cmd serve ${flags}`);
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    const page = await browser.newPage();
    for (let left = 120; left > 0; left--) {
      const answer = await page.goto(url).catch(() => undefined);
      if (answer?.ok()) break;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
    await page.getByText("The bundled model draws plain shapes").waitFor({ timeout: 120_000 });
    await page.locator("#prompt").fill("a red heart");
    await page.locator("#prompt").press("Control+Enter");
    await page.locator(".finished img.result").waitFor({ timeout: 300_000 });
    return 0;
  } catch (error) {
    console.error(`Cannot draw on the page: ${(error as Error).message}`);
    return 1;
  } finally {
    await browser.close();
    server.kill("SIGKILL");
    await server.status;
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
