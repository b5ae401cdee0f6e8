/**
 * The launcher, with everything around it replaced: a folder of fake programs is all of PATH, so
 * no test touches the network or the system.
 */

import { strict as assert } from "node:assert";
import { rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { isFileSync } from "../../platform/mod.ts";

const LAUNCHER = fileURLToPath(new URL("../../denoise", import.meta.url));
const ROOT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");
const windows = Deno.build.os === "windows";

/** A fake Deno: tells its version, else prints how it was called. */
const DENO = (version: string) =>
  `if [ "$1" = --version ]; then echo "deno ${version} (stable, release, fake)"; exit; fi
echo "version=${version} backend=\${DENO_WEBGPU_BACKEND:-} runtime=\${XDG_RUNTIME_DIR:-}"
for arg in "$@"; do echo "arg=$arg"; done
exit 7`;

/** A fake npm that puts a Deno where the package of this platform would hold it. */
const NPM = (version: string) =>
  `while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/node_modules/@deno/some-platform"
cat > "$2/node_modules/@deno/some-platform/deno" <<'X'
#!/bin/sh
${DENO(version)}
X
echo call >> "$HOME/npm-calls"`;

/** A fake curl that writes what it would fetch: the archive, or its digest. */
const CURL = (digest: string) =>
  `while [ "$1" != -o ]; do shift; done
case $4 in
  *.sha256sum) echo "${digest}  deno.zip" > "$2" ;;
  *) echo "$4" > "$2" ;;
esac`;

/** A fake unzip that puts a Deno where the archive would. */
const UNZIP = (version: string) =>
  `while [ "$1" != -d ]; do shift; done
cat > "$2/deno" <<'X'
#!/bin/sh
${DENO(version)}
X`;

/** What the launcher expects of the program for a system and a processor, as `uname` names them. */
const PINNED: ReadonlyMap<string, string> = new Map(
  [...Deno.readTextFileSync(LAUNCHER).matchAll(/^sha256_(\w+?)_(\w+)=([0-9a-f]{64})$/gm)]
    .map(([, system, processor, digest]) => [`${system} ${processor}`, digest!]),
);
/** Machines for which there is a Deno, and how its release names them. */
const MACHINES: Readonly<Record<string, string>> = {
  "Linux x86_64": "x86_64-unknown-linux-gnu",
  "Linux aarch64": "aarch64-unknown-linux-gnu",
  "Darwin x86_64": "x86_64-apple-darwin",
  "Darwin arm64": "aarch64-apple-darwin",
};

function pinned(machine: string): string {
  return PINNED.get(machine.toLowerCase())!;
}

interface Outcome {
  code: number;
  out: string;
  err: string;
}

function programPath(name: string): string | undefined {
  return (Deno.env.get("PATH") ?? "").split(":").map((folder) => `${folder}/${name}`)
    .find(isFileSync);
}

class Sandbox {
  readonly home = Deno.makeTempDirSync({ prefix: "denoise-launcher-" });
  readonly bin = `${this.home}/bin`;

  constructor() {
    Deno.mkdirSync(this.bin);
    Deno.mkdirSync(`${this.home}/tmp`);
    // What the launcher itself needs; everything else is absent unless a test adds it.
    for (
      const name of [
        ...["dirname", "basename", "readlink", "mkdir", "mktemp", "sed", "id", "ls", "chmod"],
        ...["mv", "rm", "cat", "sh", "sha256sum", "printf"],
      ]
    ) {
      const path = programPath(name);
      if (path === undefined) throw new Error(`Cannot test the launcher: ${name} is not on PATH`);
      this.program(name, `exec ${path} "$@"`);
    }
    // A machine whose programs have no digest in the launcher.
    this.machine("Linux riscv64");
    this.program("sudo", "exit 1");
    Deno.mkdirSync(`${this.home}/data/vulkan/icd.d`, { recursive: true });
    Deno.writeTextFileSync(`${this.home}/data/vulkan/icd.d/fake.json`, "{}");
  }

  program(name: string, body: string, folder = this.bin): void {
    Deno.mkdirSync(folder, { recursive: true });
    Deno.writeTextFileSync(`${folder}/${name}`, `#!/bin/sh\n${body}\n`, { mode: 0o755 });
  }

  machine(name: string): void {
    const [system, processor] = name.split(" ");
    this.program("uname", `[ "$1" = -m ] && echo ${processor} || echo ${system}`);
  }

  run(
    args: string[],
    env: Record<string, string> = {},
    launcher = LAUNCHER,
    [shell = "", ...options]: readonly string[] = ["/bin/sh"],
  ): Outcome {
    const { code, stdout, stderr } = new Deno.Command(shell, {
      args: [...options, launcher, ...args],
      cwd: this.home,
      clearEnv: true,
      env: {
        HOME: this.home,
        PATH: this.bin,
        XDG_DATA_HOME: `${this.home}/data`,
        LD_LIBRARY_PATH: this.home,
        DENOISE_SYSTEM_ROOT: `${this.home}/system`,
        TMPDIR: `${this.home}/tmp`,
        // GNU's programs then take no options after their files, as those of BSD and macOS do not.
        POSIXLY_CORRECT: "1",
        ...env,
      },
    }).outputSync();
    const decoder = new TextDecoder();
    return { code, out: decoder.decode(stdout), err: decoder.decode(stderr) };
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.home, { recursive: true });
  }
}

function launcherTest(name: string, body: (sandbox: Sandbox) => void): void {
  Deno.test({
    name: windows ? `${name} (skipped: the launcher is for POSIX shells)` : name,
    ignore: windows,
    fn() {
      using sandbox = new Sandbox();
      body(sandbox);
    },
  });
}

launcherTest("denoise starts cli.ts with its arguments and its exit status, silently", (box) => {
  box.program("deno", DENO("2.9.5"));
  const { code, out, err } = box.run(["generate", "a red cube", "--steps=4"]);
  assert.equal(code, 7);
  assert.equal(err, "");
  const args = out.split("\n").filter((line) => line.startsWith("arg=")).map((s) => s.slice(4));
  assert.deepEqual(args, [
    "run",
    "-A",
    "--config",
    `${ROOT}/deno.json`,
    `${ROOT}/cli.ts`,
    "generate",
    "a red cube",
    "--steps=4",
  ]);
});

launcherTest("denoise test starts the gate", (box) => {
  box.program("deno", DENO("2.9.6"));
  const { out } = box.run(["test", "runtime/"]);
  assert.match(out, /arg=.*\/tools\/gate\.ts\narg=runtime\/\n$/);
});

launcherTest("denoise bench starts the benches", (box) => {
  box.program("deno", DENO("2.9.6"));
  const { out } = box.run(["bench", "--ops"]);
  assert.match(out, /arg=.*\/tools\/bench\/main\.ts\narg=--ops\n$/);
});

launcherTest("denoise asks cli.ts for the help of what it starts itself", (box) => {
  box.program("deno", DENO("2.9.6"));
  for (const args of [["test", "--help"], ["bench", "-h"]]) {
    const { out } = box.run(args);
    assert.match(out, new RegExp(`arg=.*/cli\\.ts\\narg=${args.join("\\narg=")}\\n$`));
  }
});

launcherTest("denoise finds its folder through symlinks, absolute and relative", (box) => {
  box.program("deno", DENO("2.9.6"));
  Deno.symlinkSync(LAUNCHER, `${box.home}/first`);
  Deno.symlinkSync("../first", `${box.bin}/second`);
  const { out } = box.run(["serve"], {}, `${box.bin}/second`);
  assert.ok(out.includes(`arg=${ROOT}/cli.ts\n`), out);
});

launcherTest("denoise sets the Vulkan backend and a runtime folder that can be written", (box) => {
  box.program("deno", DENO("2.9.6"));
  const unset = box.run(["serve"]).out;
  assert.match(unset, /backend=vulkan runtime=.*\/\.cache\/denoise\/run\n/);
  const absent = box.run(["serve"], { XDG_RUNTIME_DIR: `${box.home}/absent` }).out;
  assert.match(absent, /runtime=.*\/\.cache\/denoise\/run\n/);
});

launcherTest("denoise leaves a backend and a runtime folder that are set", (box) => {
  box.program("deno", DENO("2.9.6"));
  const env = { DENO_WEBGPU_BACKEND: "gl", XDG_RUNTIME_DIR: box.home };
  assert.ok(box.run(["serve"], env).out.includes(`backend=gl runtime=${box.home}\n`));
});

launcherTest("denoise prefers the Deno named in DENOISE_DENO", (box) => {
  box.program("deno", DENO("2.9.6"));
  box.program("deno", DENO("3.0.1"), `${box.home}/other`);
  const { out } = box.run(["serve"], { DENOISE_DENO: `${box.home}/other/deno` });
  assert.match(out, /version=3\.0\.1/);
});

launcherTest("denoise fetches Deno from npm where that on PATH is too old, only once", (box) => {
  box.program("deno", DENO("2.9.4"));
  box.program("npm", NPM("2.9.6"));
  const first = box.run(["serve"]);
  assert.match(first.out, /version=2\.9\.6/);
  assert.match(first.err, /^denoise: Fetching Deno 2\.9\.6 from npm into .*, once\n$/);
  const second = box.run(["serve"]);
  assert.match(second.out, /version=2\.9\.6/);
  assert.equal(second.err, "");
  assert.equal(Deno.readTextFileSync(`${box.home}/npm-calls`), "call\n");
  const left = [...Deno.readDirSync(`${box.home}/.cache/denoise`)].map((entry) => entry.name);
  assert.deepEqual(left.sort(), ["deno-2.9.6", "deno.log", "run"]);
});

launcherTest("denoise starts the program behind npm's script, not the script", (box) => {
  const folder = `${box.home}/lib/deno`;
  box.program("bin.cjs", DENO("2.9.9"), folder);
  box.program("deno", DENO("2.9.7"), `${folder}/node_modules/@deno/some-platform`);
  Deno.symlinkSync("../lib/deno/bin.cjs", `${box.bin}/deno`);
  assert.match(box.run(["serve"]).out, /version=2\.9\.7/);
});

for (const [machine, target] of Object.entries(MACHINES)) {
  const TELLS_PINNED = `cat > /dev/null; echo "${pinned(machine)}  -"`;

  launcherTest(`denoise takes Deno's release for ${machine}, and checks its digest`, (box) => {
    box.machine(machine);
    box.program("curl", `${CURL(pinned(machine))}\necho "$4" >> "$HOME/fetched"`);
    box.program("unzip", UNZIP("2.9.6"));
    const refused = box.run(["serve"]);
    assert.equal(refused.code, 1);
    assert.match(refused.err, /Fetching Deno 2\.9\.6 from its release/);
    assert.match(
      refused.err,
      /Cannot use the Deno that was fetched: its SHA-256 is not the release's/,
    );
    assert.match(
      Deno.readTextFileSync(`${box.home}/fetched`),
      new RegExp(`/deno-${target}\\.zip\n`),
    );
    box.program("sha256sum", TELLS_PINNED);
    assert.match(box.run(["serve"]).out, /version=2\.9\.6/);
  });

  launcherTest(`denoise refuses a Deno for ${machine} with another digest than it knows`, (box) => {
    box.program("npm", NPM("2.9.6"));
    box.machine(machine);
    const refused = box.run(["serve"]);
    assert.equal(refused.code, 1);
    assert.match(refused.err, new RegExp(`its SHA-256 is not ${pinned(machine)}`));
    box.program("sha256sum", TELLS_PINNED);
    assert.match(box.run(["serve"]).out, /version=2\.9\.6/);
  });
}

launcherTest("denoise on macOS looks for no driver, and takes shasum for a digest", (box) => {
  const calls = withoutDriver(box, 501);
  box.machine("Darwin arm64");
  for (const name of ["deno", "sha256sum"]) Deno.removeSync(`${box.bin}/${name}`);
  box.program("npm", NPM("2.9.6"));
  box.program("shasum", `cat > /dev/null; echo "${pinned("Darwin arm64")}  -"`);
  const { out, err } = box.run(["serve"], { LD_LIBRARY_PATH: "" });
  assert.match(out, /version=2\.9\.6 backend= runtime=\n/);
  assert.match(err, /^denoise: Fetching Deno 2\.9\.6 from npm into .*, once\n$/);
  assert.deepEqual(calls(), []);
});

/** Shells of other systems: macOS has bash 3.2 as `sh`, or zsh. */
const SHELLS = [["bash", "--posix"], ["zsh", "--emulate", "sh"], ["mksh"], [
  "ksh",
]];

launcherTest("denoise starts in every other shell that is here", (box) => {
  box.program("npm", NPM("2.9.6"));
  for (const [name = "", ...options] of SHELLS) {
    const shell = programPath(name);
    if (shell === undefined) continue;
    rmSync(`${box.home}/.cache`, { recursive: true, force: true });
    for (const wanted of [/^denoise: Fetching Deno 2\.9\.6 from npm into .*, once\n$/, /^$/]) {
      const { code, out, err } = box.run(["list", "a  b"], {}, LAUNCHER, [shell, ...options]);
      assert.match(err, wanted, `${name}: ${err}`);
      assert.match(out, /^version=2\.9\.6 backend=vulkan .*\narg=list\narg=a {2}b\n$/ms, name);
      assert.equal(code, 7, name);
    }
  }
});

/** A program that must not run. */
const EVIL = `echo attacker >&2; if [ "$1" = --version ]; then echo "deno 2.9.6 (fake)"; fi`;

launcherTest("denoise does not run what lies in a cache that is a link", (box) => {
  box.program("npm", NPM("2.9.6"));
  box.program("deno-2.9.6", EVIL, `${box.home}/elsewhere`);
  Deno.mkdirSync(`${box.home}/.cache`);
  Deno.symlinkSync(`${box.home}/elsewhere`, `${box.home}/.cache/denoise`);
  const { out, err } = box.run(["serve"]);
  assert.match(out, /version=2\.9\.6/);
  assert.doesNotMatch(err, /attacker/);
  assert.match(err, /^denoise: Not using .*\/\.cache\/denoise: it is a link\n/);
});

launcherTest("denoise does not run what others may have put into its cache", (box) => {
  box.program("npm", NPM("2.9.6"));
  const cache = `${box.home}/.cache/denoise`;
  box.program("deno-2.9.6", EVIL, cache);
  Deno.chmodSync(`${cache}/deno-2.9.6`, 0o777);
  Deno.chmodSync(cache, 0o777);
  const { out, err } = box.run(["serve"]);
  assert.match(out, /version=2\.9\.6/);
  assert.doesNotMatch(err, /attacker/);
  assert.equal(Deno.statSync(cache).mode! & 0o777, 0o755, "and shuts it");
  assert.doesNotMatch(err, /Not using/);
});

launcherTest("denoise leaves a cache in a folder in which others may replace it", (box) => {
  box.program("npm", NPM("2.9.6"));
  box.program("deno-2.9.6", EVIL, `${box.home}/.cache/denoise`);
  Deno.chmodSync(`${box.home}/.cache`, 0o777);
  const { out, err } = box.run(["serve"]);
  assert.match(out, /version=2\.9\.6/);
  assert.doesNotMatch(err, /attacker/);
  assert.match(err, /^denoise: Not using .*: others may write to a folder above it\n/);
  // As in /tmp: all may add, and only the owner may replace.
  Deno.chmodSync(`${box.home}/.cache`, 0o1777);
  assert.doesNotMatch(box.run(["serve"]).err, /Not using/);
});

/** Whether files can be another user's: for root alone, and not where a namespace knows no other user. */
function canGiveAway(): boolean {
  const path = Deno.makeTempFileSync();
  try {
    Deno.chownSync(path, 23456, 23456);
    return true;
  } catch {
    return false;
  } finally {
    Deno.removeSync(path);
  }
}

Deno.test({
  name: "denoise does not run what another user put where its cache would be",
  ignore: windows || !canGiveAway(),
  fn() {
    using box = new Sandbox();
    box.program("npm", NPM("2.9.6"));
    const planted = `${box.home}/tmp/denoise-${Deno.uid()}`;
    box.program("deno-2.9.6", EVIL, planted);
    for (const path of [`${planted}/deno-2.9.6`, planted]) Deno.chownSync(path, 23456, 23456);
    const env = { HOME: "/nonexistent/home", XDG_CACHE_HOME: "/proc/none" };
    const { err } = box.run(["serve"], env);
    assert.doesNotMatch(err, /attacker/);
    assert.match(err, /denoise: Not using .*\/denoise-0: it belongs to another user\n/);
  },
});

launcherTest("denoise does not run a Deno on PATH to which everybody may write", (box) => {
  box.program("npm", NPM("2.9.6"));
  box.program("deno", EVIL, `${box.home}/open`);
  Deno.chmodSync(`${box.home}/open`, 0o777);
  const { out, err } = box.run(["serve"], { DENOISE_DENO: `${box.home}/open/deno` });
  assert.match(out, /version=2\.9\.6/);
  assert.doesNotMatch(err, /attacker/);
  assert.match(err, /Not using .*\/open\/deno: everybody may write to it, or to its folder\n/);
});

launcherTest("denoise says what to do where no Deno can be had", (box) => {
  box.program("npm", "echo broken; exit 1");
  const { code, err } = box.run(["serve"]);
  assert.equal(code, 1);
  assert.match(err, /Cannot find Deno: .*deno\.log.*install Deno 2\.9\.6, then start again\n$/s);
});

launcherTest("denoise refuses a fetched Deno that is not what it asked for", (box) => {
  box.program("npm", NPM("1.46.3"));
  assert.equal(box.run(["serve"]).code, 1);
});

/** Takes the driver away and gives the sandbox a package manager that keeps a list of its calls. */
function withoutDriver(box: Sandbox, user: number, apt = ""): () => string[] {
  box.program("deno", DENO("2.9.6"));
  box.program("id", `echo ${user}`);
  box.program("env", `shift; exec "$@"`);
  box.program("apt-get", `echo "$@" >> "$HOME/apt-calls"\n${apt}`);
  Deno.removeSync(`${box.home}/data`, { recursive: true });
  return () => {
    try {
      return Deno.readTextFileSync(`${box.home}/apt-calls`).trim().split("\n");
    } catch {
      return [];
    }
  };
}

const SIMULATE = "install -s --no-install-recommends mesa-vulkan-drivers";
const INSTALL = "install -y --no-install-recommends mesa-vulkan-drivers";

launcherTest(
  "denoise installs the software driver as root, and says what before it does",
  (box) => {
    const calls = withoutDriver(
      box,
      0,
      `case $2 in
       -s) printf 'Inst %s (1.0)\\n' libdrm2 libllvm19 mesa-vulkan-drivers; echo 'Conf libdrm2' ;;
       *) ;;
     esac`,
    );
    const { code, err } = box.run(["serve"]);
    assert.equal(code, 7);
    assert.deepEqual(calls().slice(0, 2), [SIMULATE, INSTALL]);
    assert.match(
      err,
      /^denoise: Installing mesa-vulkan-drivers, because .*software driver.*\ndenoise: With it come libdrm2 libllvm19\n/,
    );
  },
);

launcherTest("denoise installs nothing where DENOISE_INSTALL says no", (box) => {
  const calls = withoutDriver(box, 0);
  const { err } = box.run(["serve"], { DENOISE_INSTALL: "no" });
  assert.deepEqual(calls(), []);
  assert.match(err, /^denoise: Run 'apt-get update && apt-get install mesa-vulkan-drivers'/);
});

launcherTest("denoise updates the package lists where the first try fails", (box) => {
  const calls = withoutDriver(
    box,
    0,
    `[ "$1" = update ] && : > "$HOME/updated"; [ -e "$HOME/updated" ]`,
  );
  box.run(["serve"]);
  assert.deepEqual(calls(), [SIMULATE, "update", SIMULATE, INSTALL]);
});

launcherTest("denoise tries to install the driver once, then only says what to run", (box) => {
  const calls = withoutDriver(box, 0, "exit 100");
  assert.match(box.run(["serve"]).err, /Cannot install mesa-vulkan-drivers: apt-get failed/);
  const before = calls().length;
  const { code, err } = box.run(["serve"]);
  assert.equal(calls().length, before);
  assert.equal(code, 7);
  assert.match(err, /^denoise: Run 'apt-get update && apt-get install mesa-vulkan-drivers' .*\n$/);
});

launcherTest("denoise uses sudo where it asks for no password", (box) => {
  const calls = withoutDriver(box, 1000);
  box.program("true", "exit 0");
  box.program("sudo", `shift; exec "$@"`);
  box.run(["serve"]);
  assert.deepEqual(calls(), [SIMULATE, INSTALL]);
});

launcherTest("denoise without rights says in one sentence what to run, and goes on", (box) => {
  const calls = withoutDriver(box, 1000);
  const { code, err } = box.run(["serve"]);
  assert.equal(code, 7);
  assert.deepEqual(calls(), []);
  assert.match(err, /^denoise: Run 'apt-get .*mesa-vulkan-drivers' as root, because .*\n$/);
});

launcherTest("denoise installs the loader where only that is missing", (box) => {
  const calls = withoutDriver(box, 0);
  box.run(["serve"], { VK_DRIVER_FILES: "some.json", LD_LIBRARY_PATH: "" });
  assert.equal(calls().at(-1), "install -y --no-install-recommends libvulkan1");
});

launcherTest("denoise finds drivers and loader in the system's folders", (box) => {
  const calls = withoutDriver(box, 0);
  for (const file of ["etc/vulkan/icd.d/a.json", "usr/lib/some-arch/libvulkan.so.1"]) {
    const folder = `${box.home}/system/${file.slice(0, file.lastIndexOf("/"))}`;
    Deno.mkdirSync(folder, { recursive: true });
    Deno.writeTextFileSync(`${box.home}/system/${file}`, "");
  }
  assert.equal(box.run(["serve"], { LD_LIBRARY_PATH: "" }).err, "");
  assert.deepEqual(calls(), []);
});

launcherTest("denoise --help installs nothing", (box) => {
  const calls = withoutDriver(box, 0);
  assert.equal(box.run(["--help"]).err, "");
  assert.deepEqual(calls(), []);
});

Deno.test("the launcher of Windows wants the Deno that the other one wants", async () => {
  const [unix, windows] = await Promise.all(
    [LAUNCHER, `${LAUNCHER}.cmd`].map((path) => Deno.readTextFile(path)),
  );
  const numbers = (text: string, names: readonly string[]) =>
    names.map((name) => new RegExp(`${name}=([\\d.]+)`).exec(text)?.[1]);
  assert.deepEqual(numbers(windows!, ["wanted", "lowest"]), numbers(unix!, ["version", "lowest"]));
  const digests = [...windows!.matchAll(/sha256_win32_(\w+)=[0-9a-f]{64}"/g)].map(([, of]) => of);
  assert.deepEqual(digests, ["x64", "arm64"]);
});
