/**
 * Windows: Windows' Deno under Wine, with Vulkan passed through to Mesa's software driver, in a root of Debian's packages that
 * a user namespace makes its own.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createHash } from "node:crypto";
import { zipSync } from "fflate";
import { chromium } from "playwright-core";
import { DAWN_VERSION } from "../../runtime/device/backends/dawn_package.ts";
import { driversFolder, unpackPackages } from "../drivers/debian.ts";
import { ROOT } from "../root.ts";
import {
  denoFor,
  expectStatus,
  filledNpmCache,
  inNamespaces,
  linkFolders,
  namespaceObstacle,
  npmPackage,
  runChecks,
  sameImage,
  type Step,
  type System,
} from "./system.ts";

/** Debian's release with Wine 10. */
const SUITE = "trixie";
const PACKAGES = [
  ...["wine", "wine64", "mesa-vulkan-drivers", "libvulkan1"],
  // Without a display Wine's Vulkan refuses its surfaces, and wgpu finds no adapter.
  ...["xvfb", "xkb-data", "x11-xkb-utils", "dash", "coreutils"],
];
/** Port of the server whose page is drawn on. */
const PAGE_PORT = 30417;

/** Where a library says that it is Wine's own, in bytes. */
const WINE_MARK = { at: 64, length: 32 };

const TESTS = [
  ...["commands", "hub", "media", "generation", "library", "engine", "server"],
  // A server as a process, killed in the midst of jobs, and downloads from a hub.
  ...["serve", "crash", "pull"].map((name) => `tests/e2e/${name}_test.ts`),
];

/** Runs in the root, with the repository and Deno's packages bound into it. */
const INSIDE = `set -e
root=$1 repository=$2 packages=$3; shift 3
mkdir -p "$root/proc" && mount -t proc proc "$root/proc"
for folder in dev sys; do mkdir -p "$root/$folder"; mount --rbind /$folder "$root/$folder"; done
mkdir -p "$root/tmp" "$root/root" "$root/run" "$root/denoise" "$root/packages/npm"
mount --bind "$repository" "$root/denoise"
mount --bind "$packages" "$root/packages/npm"
exec chroot "$root" env -i PATH=/usr/lib/wine:/usr/bin WINELOADER=/usr/lib/wine/wine64 HOME=/root LANG=C.UTF-8 DISPLAY=:77 WINEDEBUG=-all NO_COLOR=1 \\
  WINEDLLOVERRIDES=mscoree,mshtml= VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json DENO_WEBGPU_BACKEND=vulkan \\
  DENO_DIR='Z:\\packages' DENOISE_DENO='Z:\\deno\\deno.exe' DENOISE_CACHE=off DENOISE_NO_SERVER=true DENOISE_EMULATOR=wine DENOISE_TEST_PRELOAD='Z:\\denoise\\tools\\platforms\\wine.ts' \\
  sh -c 'rm -f /tmp/.X77-lock /tmp/.X11-unix/X77
    Xvfb :77 -screen 0 640x480x24 >/dev/null 2>&1 & display=$!
    for _ in 1 2 3 4 5 6 7 8 9 10; do [ -S /tmp/.X11-unix/X77 ] && break; sleep 0.5; done
    # A registry that is killed while it is written is broken, so each run has a copy of its own.
    export WINEPREFIX=$HOME/prefix
    if [ ! -e $HOME/prefix.ready ]; then
      rm -rf $HOME/prefix
      wine64 wineboot -i && wineserver -w && touch $HOME/prefix.ready
    fi
    WINEPREFIX=$(mktemp -d); cp -a $HOME/prefix/. "$WINEPREFIX"
    cd /denoise; wine64 "$@" || status=$?
    wineserver -k 2>/dev/null; wineserver -w; kill $display 2>/dev/null
    rm -rf "$WINEPREFIX"; exit \${status:-0}' sh "$@"`;

/** What cmd would take for its own, if it were not quoted. */
const PROMPT = "a blue star! & 100%";
const IMAGE = ["--num-inference-steps", "2", "--seed", "3"];

/** What the launcher fetches Deno with, and where the stand-ins for it lie in the root. */
const PROGRAMS = ["curl", "certutil", "tar", "npm"];
const STAND_INS = "stand-ins";
/** What the release calls its archive. */
const ARCHIVE = "deno-x86_64-pc-windows-msvc.zip";

type Start = (...args: string[]) => Deno.ChildProcess;

export const WINDOWS: System = {
  obstacle: () => namespaceObstacle("true", "user namespaces"),
  async test(args) {
    const start = await prepare();
    const wine = async (...args: string[]) => (await start(...args).status).code;
    const tests = (...paths: string[]) =>
      wine("Z:\\deno\\deno.exe", ...[
        "test",
        "-A",
        "--no-check",
        "--quiet",
        "--preload",
        "tools/platforms/wine.ts",
      ], ...paths);
    /** Runs a line of cmd, from a file: Wine would put quotes of its own around it. */
    const line = async (text: string) => {
      await Deno.writeTextFile(
        join(rootFolder(), "tmp/line.cmd"),
        `@echo off\r\n${text.replaceAll("%", "%%")}\r\n`,
      );
      return await wine("cmd", "/c", "Z:\\tmp\\line.cmd");
    };
    const launcher = (...args: string[]) => line(`denoise.cmd ${args.join(" ")}`);
    const groups = {
      launcher: [
        expectStatus("the launcher", 0, () => launcher("--version")),
        expectStatus("a wrong command line", 2, () => launcher("frobnicate")),
        expectStatus(
          "a name that Windows does not allow",
          1,
          () => launcher("generate", "x", "-o", "a?b.png"),
        ),
      ],
      image: [
        sameImage("an image", [PROMPT, ...IMAGE], async () => ({
          code: await launcher("generate", `"${PROMPT}"`, ...IMAGE, "-o", "Z:\\tmp\\image.png"),
          path: join(rootFolder(), "tmp/image.png"),
        })),
      ],
      fetch: await fetchingSteps(wine),
      dawn: [
        expectStatus("doctor through Dawn", 0, () => wine("cmd", "/c", "Z:\\webgpu\\doctor.cmd")),
      ],
      page: [expectStatus("the page of a server", 0, () => drawOnPage(start))],
      tests: [expectStatus("the tests", 0, () => tests(...TESTS))],
    };
    return await runChecks({ groups, run: launcher, tests }, args);
  },
};

function rootFolder(): string {
  return join(driversFolder(), "wine", "root");
}

/** A root with Wine, and Windows' Deno. */
async function prepare(): Promise<Start> {
  const folder = join(driversFolder(), "wine");
  const root = rootFolder();
  if (!existsSync(join(folder, "ready"))) {
    console.error(`Fetching Wine from Debian ${SUITE} into ${folder}, once (about 400 MB)`);
    if (
      await unpackPackages({ folder, packages: PACKAGES, suite: SUITE, complete: true }) ===
        undefined
    ) {
      throw new Error("Cannot test on Windows: apt-get knows no mirror of Debian");
    }
    await linkFolders(root);
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
  const [packages, program] = [await filledNpmCache(), await denoFor("win32-x64")];
  // On the disk of the root, as Dawn's addon needs a hard link to it.
  await Deno.mkdir(join(root, "deno"), { recursive: true });
  const copy = join(root, "deno", "deno.exe");
  // Another run may have it open.
  await Deno.copyFile(join(program, "deno.exe"), `${copy}.new`);
  await Deno.rename(`${copy}.new`, copy);
  await bringDawn(join(root, "webgpu"));
  return (...args) => inNamespaces(INSIDE, [root, fileURLToPath(ROOT), packages, ...args]).spawn();
}

/** Copies Dawn's addon, without what an earlier run put beside it. */
async function bringDawn(folder: string): Promise<void> {
  const platform = join("dist", "win32-x64");
  const from = join(await npmPackage("webgpu", DAWN_VERSION), platform);
  await Deno.remove(folder, { recursive: true }).catch(() => {});
  await Deno.mkdir(join(folder, platform), { recursive: true });
  for (const name of readdirSync(from)) {
    await Deno.copyFile(join(from, name), join(folder, platform, name));
  }
  await Deno.writeTextFile(
    join(folder, "doctor.cmd"),
    '@echo off\r\nset "DENOISE_DAWN=Z:\\webgpu"\r\nZ:\\denoise\\denoise.cmd doctor --gpu-backend dawn\r\n',
  );
}

/** The launcher fetches Deno from its release and from npm, checks it and starts it; refuses what is another. */
async function fetchingSteps(wine: (...args: string[]) => Promise<number>): Promise<Step[]> {
  const program = await denoFor("win32-x64");
  const root = rootFolder();
  const [folder, cache] = [join(root, STAND_INS), join(root, "fetched")];
  const kept = join(cache, "denoise", `deno-${Deno.version.deno}.exe`);
  const deno = await Deno.readFile(join(program, "deno.exe"));
  const other = new TextEncoder().encode("another program");
  const script = async (name: string, ...lines: string[]) =>
    await Deno.writeTextFile(join(folder, `${name}.cmd`), ["@echo off", ...lines, ""].join("\r\n"));
  const stand =
    `Z:\\deno\\deno.exe run -A --config Z:\\denoise\\deno.json Z:\\denoise\\tools\\platforms\\windows_programs.ts`;

  /** A check with these programs on PATH, in front of which the network gives a program and its digest. */
  const fetching = (name: string, programs: string[], given: Given, isRight: boolean): Step => ({
    name,
    run: async () => {
      for (const path of [folder, cache]) {
        await Deno.remove(path, { recursive: true }).catch(() => {});
      }
      await Deno.mkdir(folder, { recursive: true });
      await Deno.writeFile(join(folder, "npm.exe"), given.program);
      const archive = zipSync({ "deno.exe": given.program }, { level: 0 });
      await Deno.writeFile(join(folder, ARCHIVE), archive);
      const digest = given.digest ?? createHash("sha256").update(archive).digest("hex");
      await Deno.writeTextFile(
        join(folder, `${ARCHIVE}.sha256sum`),
        `\r\nAlgorithm : SHA256\r\nHash      : ${digest.toUpperCase()}\r\nPath      : D:\\${ARCHIVE}\r\n`,
      );
      await Deno.mkdir(join(folder, "bin"));
      for (const each of programs) {
        await script(`bin/${each}`, `${stand} ${each} Z:\\${STAND_INS} %*`, "exit /b %ERRORLEVEL%");
      }
      await script(
        "start",
        `set "PATH=Z:\\${STAND_INS}\\bin;%PATH%"`,
        `set "XDG_CACHE_HOME=Z:\\fetched"`,
        `set "DENOISE_DENO="`,
        "Z:\\denoise\\denoise.cmd --version",
      );
      const code = await wine("cmd", "/c", `Z:\\${STAND_INS}\\start.cmd`);
      if (code !== (isRight ? 0 : 1)) return `exit status ${code}`;
      if (existsSync(kept) === isRight) return undefined;
      return isRight ? "it kept no Deno" : "it kept another program";
    },
  });
  const release = PROGRAMS.filter((name) => name !== "npm");
  return [
    fetching("Deno from its release", release, { program: deno }, true),
    fetching(
      "a release with another digest",
      release,
      { program: deno, digest: "0".repeat(64) },
      false,
    ),
    fetching("a release with another program", release, { program: other }, false),
    fetching("Deno from npm", ["npm", "certutil"], { program: deno }, true),
    fetching("another program from npm", ["npm", "certutil"], { program: other }, false),
  ];
}

/** What the network gives. */
interface Given {
  readonly program: Uint8Array<ArrayBuffer>;
  /** What the release says of its archive; the truth by default. */
  readonly digest?: string;
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
