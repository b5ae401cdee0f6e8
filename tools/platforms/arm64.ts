/**
 * Linux on ARM64: Deno for ARM64 under Debian's qemu, with the Vulkan drivers of Debian 13, and of Debian 12, whose driver
 * has no f16 there. All programs that are started inside run by qemu, too, by a table of formats that belongs to the namespace.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { driversFolder, unpackPackages } from "../drivers/debian.ts";
import { listTree, ROOT } from "../root.ts";
import {
  denoFor,
  expectStatus,
  filledNpmCache,
  inNamespaces,
  linkFolders,
  namespaceObstacle,
  runChecks,
  sameImage,
  type Step,
  type System,
} from "./system.ts";

/** Whose qemu is taken: that of Debian 12 takes several times as long. */
const QEMU_SUITE = "trixie";
const QEMU = "qemu-aarch64";
/** Releases whose drivers are tried: with f16, and without. */
const SUITES = ["trixie", "bookworm"] as const;
const PACKAGES = ["mesa-vulkan-drivers", "libvulkan1", "dash", "coreutils", "sed"];

/** Formats of programs are a namespace's own since Linux 6.7. */
const MOUNT_FORMATS = "mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc";
/** What begins a program for ARM64, and which of its bits count, as the kernel reads them. */
const MAGIC = String.raw`\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00`;
const MASK = String
  .raw`\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff`;

/** Runs in the root, with the repository and Deno's packages bound into it. */
const INSIDE = `set -e
root=$1 qemu=$2 repository=$3 packages=$4 deno=$5 manifest=$6; shift 6
${MOUNT_FORMATS}
printf '%s' ":${QEMU}:M::${MAGIC}:${MASK}:$qemu:F" >/proc/sys/fs/binfmt_misc/register
for folder in proc dev sys tmp root denoise deno packages/npm; do mkdir -p "$root/$folder"; done
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount --bind "$repository" "$root/denoise"
mount --bind "$packages" "$root/packages/npm"
mount --bind "$deno" "$root/deno"
exec chroot "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/root LANG=C.UTF-8 NO_COLOR=1 XDG_RUNTIME_DIR=/tmp \\
  VK_DRIVER_FILES="$manifest" DENO_WEBGPU_BACKEND=vulkan DENO_DIR=/packages DENOISE_DENO=/deno/deno DENOISE_CACHE=off \\
  DENOISE_NO_SERVER=true DENOISE_EMULATOR=qemu sh -c 'cd /denoise; exec "$@"' sh "$@"`;

/** What the launcher takes for npm: it brings what npm would. */
const NPM = `#!/bin/sh
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/node_modules/@deno/linux-arm64-glibc"
cp /deno/deno "$2/node_modules/@deno/linux-arm64-glibc/deno"
`;

/** Tests of what differs between processors and systems. */
const TESTS = ["commands", "hub", "media", "tests/house/launcher_test.ts"];
/** What takes qemu minutes: commands that draw, as the images do, and FFmpeg in WebAssembly, beyond its limits of time. */
const TOO_LONG = /^commands\/(generate|plan|run)_test\.ts$|^media\/video\//;

/** One step of the smallest image: qemu compiles each kernel for a second. */
const IMAGE = ["a yellow star", "--num-inference-steps", "1", "--size", "64x64", "--seed", "3"];

interface Root {
  /** Where it lies. */
  readonly folder: string;
  start(...args: string[]): Promise<number>;
}

export const ARM64: System = {
  obstacle: () =>
    namespaceObstacle(
      `${MOUNT_FORMATS} && test -w /proc/sys/fs/binfmt_misc/register`,
      "formats of programs in user namespaces (Linux 6.7 or later has them)",
    ),
  async test(args) {
    const qemu = await fetchQemu();
    const [packages, program] = [await filledNpmCache(), await denoFor("linux-arm64-glibc")];
    const roots = new Map<string, Root>();
    for (const suite of SUITES) {
      const folder = await fetchRoot(suite);
      const drivers = join(folder, "usr/share/vulkan/icd.d");
      const manifest = readdirSync(drivers).find((name) => name.startsWith("lvp"))!;
      const start = async (...args: string[]) => {
        const shared = [folder, qemu, fileURLToPath(ROOT), packages, program];
        const inside = [...shared, `/usr/share/vulkan/icd.d/${manifest}`, ...args];
        return (await inNamespaces(INSIDE, inside).spawn().status).code;
      };
      roots.set(suite, { folder, start });
    }
    const { start } = roots.get(SUITES[0])!;
    const denoise = (...args: string[]) => start("sh", "denoise", ...args);
    const tests = (...paths: string[]) =>
      start("/deno/deno", "test", "-A", "--no-check", "--quiet", ...paths);
    const groups = {
      launcher: [
        expectStatus("the launcher", 0, () => denoise("--version")),
        fetchingDeno(roots.get(SUITES[0])!),
        expectStatus("a wrong command line", 2, () => denoise("frobnicate")),
      ],
      image: [...roots].map(([suite, { folder, start }]) =>
        sameImage(`an image with the driver of Debian's ${suite}`, IMAGE, async () => ({
          code: await start("sh", "denoise", "generate", ...IMAGE, "--output", "/tmp/image.png"),
          path: join(folder, "tmp/image.png"),
        }))
      ),
      doctor: [expectStatus("doctor", 0, () => denoise("doctor"))],
      tests: [expectStatus("the tests", 0, () => tests(...chosenTests()))],
    };
    return await runChecks({ groups, run: denoise, tests }, args);
  },
};

function chosenTests(): string[] {
  return TESTS.flatMap((path) => path.endsWith(".ts") ? [path] : listTree(path, ["_test.ts"]))
    .filter((path) => !TOO_LONG.test(path));
}

async function fetchQemu(): Promise<string> {
  const folder = join(driversFolder(), "qemu");
  const program = join(folder, QEMU);
  if (!existsSync(program)) {
    console.error(`Fetching qemu from Debian ${QEMU_SUITE} into ${folder}, once (about 60 MB)`);
    const root = await unpack(folder, ["qemu-user"], false, QEMU_SUITE);
    await Deno.rename(join(root, "usr/bin", QEMU), program);
    await Deno.remove(root, { recursive: true });
  }
  return program;
}

async function fetchRoot(suite: string): Promise<string> {
  const folder = join(driversFolder(), `arm64-${suite}`);
  const root = join(folder, "root");
  if (!existsSync(join(folder, "ready"))) {
    console.error(
      `Fetching Mesa for ARM64 from Debian ${suite} into ${folder}, once (about 80 MB)`,
    );
    await unpack(folder, PACKAGES, true, suite);
    await linkFolders(root);
    await Deno.mkdir(join(root, "usr/local/bin"), { recursive: true });
    await Deno.writeTextFile(join(root, "usr/local/bin/npm"), NPM, { mode: 0o755 });
    await Deno.writeTextFile(join(folder, "ready"), "");
  }
  return root;
}

async function unpack(
  folder: string,
  packages: readonly string[],
  complete: boolean,
  suite: string,
): Promise<string> {
  const architecture = complete ? "arm64" : "amd64";
  const root = await unpackPackages({ folder, packages, suite, complete, architecture });
  if (root === undefined) {
    throw new Error("Cannot test on ARM64: apt-get knows no mirror of Debian");
  }
  return root;
}

/** The launcher fetches Deno, checks its digest and starts it. */
function fetchingDeno({ folder, start }: Root): Step {
  const cache = join(folder, "tmp/fetched");
  return {
    name: "the launcher without Deno",
    run: async () => {
      await Deno.remove(cache, { recursive: true }).catch(() => {});
      const unset = ["-u", "DENOISE_DENO", "XDG_CACHE_HOME=/tmp/fetched"];
      const code = await start("env", ...unset, "sh", "denoise", "--version");
      if (code !== 0) return `exit status ${code}`;
      return existsSync(join(cache, "denoise", `deno-${Deno.version.deno}`))
        ? undefined
        : "it kept no Deno";
    },
  };
}
