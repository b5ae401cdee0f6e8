import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = new URL("../../", import.meta.url);

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the program; `during` may meddle while it runs. */
async function run(
  args: readonly string[],
  env: Record<string, string> = {},
  during: (child: Deno.ChildProcess) => Promise<void> = () => Promise.resolve(),
): Promise<Outcome> {
  const config = fileURLToPath(new URL("deno.json", ROOT));
  const cli = fileURLToPath(new URL("cli.ts", ROOT));
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "--config", config, cli, ...args],
    env: { NO_COLOR: "1", ...env },
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  // Never waits for ever: what hangs is ended, and its status tells.
  const timer = setTimeout(() => child.kill("SIGKILL"), 60_000);
  const [{ code }, stdout, stderr] = await Promise.all([
    child.status,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    during(child),
  ]);
  clearTimeout(timer);
  return { code, stdout, stderr };
}

/** One sentence as the last line of standard error, and no stack before it. */
function assertSentence({ stderr }: Outcome, sentence: RegExp): void {
  const last = stderr.trimEnd().split("\n").at(-1)!;
  assert.match(last, /^denoise: /);
  assert.match(last, sentence);
  assert.doesNotMatch(stderr, /\n\s+at .*:\d+|Uncaught/);
}

const NO_DRIVER = {
  DENO_WEBGPU_BACKEND: "vulkan",
  VK_DRIVER_FILES: "nowhere",
  VK_ICD_FILENAMES: "nowhere",
};

const COMMANDS = [
  ["doctor"],
  ["generate", "--prompt", "a"],
  ["serve", "--port", "0", "--output-path", ""],
];

for (const args of COMMANDS) {
  Deno.test({
    name: `denoise ${args[0]} says what to install where there is no GPU driver`,
    ignore: Deno.build.os !== "linux",
    fn: async () => {
      const outcome = await run(args, NO_DRIVER);
      assert.equal(outcome.code, 1, outcome.stderr);
      assert.equal(outcome.stdout, "");
      assertSentence(outcome, /Cannot find a GPU: .* Install your GPU's driver .*mesa-vulkan-driv/);
    },
  });
}

Deno.test("denoise generate refuses what it cannot write to before it loads a model", async () => {
  const folder = Deno.makeTempDirSync();
  Deno.writeTextFileSync(join(folder, "file"), "");
  Deno.mkdirSync(join(folder, "folder.png"));
  const cases: [output: string, sentence: RegExp][] = [
    ["folder.png", /folder\.png: it is a folder; name a file in it/],
    ["file/a.png", /file.a\.png: a part of its path is a file; choose another folder/],
    [`${"a".repeat(300)}.png`, /its name is too long; choose a shorter one/],
  ];
  try {
    for (const [output, sentence] of cases) {
      // The model does not exist: whoever looked for it first would say so.
      const model = ["--model-path", join(folder, "none")];
      const path = join(folder, output);
      const outcome = await run(["generate", "--prompt", "a", "--output", path, ...model]);
      assert.equal(outcome.code, 1, outcome.stderr);
      assertSentence(outcome, sentence);
    }
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test({
  name: "denoise generate says that the disk is full",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const folder = Deno.makeTempDirSync();
    const path = join(folder, "full.png");
    try {
      Deno.symlinkSync("/dev/full", path);
      const small = ["--size", "16x16", "--num-inference-steps", "1"];
      const outcome = await run(["generate", "--prompt", "a", "--output", path, ...small]);
      assert.equal(outcome.code, 1, outcome.stderr);
      assertSentence(outcome, /Cannot write .*full\.png: no space is left on the disk; free some$/);
    } finally {
      Deno.removeSync(folder, { recursive: true });
    }
  },
});

Deno.test({
  name: "denoise generate ends on SIGINT with 130 in the middle of the work",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const folder = Deno.makeTempDirSync();
    try {
      let signalled = 0;
      const work = ["--num-inference-steps", "1000", "--num-outputs", "1000"];
      const args = ["--output", join(folder, "a.png"), ...work];
      const outcome = await run(["generate", "--prompt", "a", ...args], {}, async (child) => {
        await untilHeeding(child.pid);
        await new Promise((resolve) => setTimeout(resolve, 2000));
        signalled = performance.now();
        child.kill("SIGINT");
      });
      assert.ok(performance.now() - signalled < 10_000);
      assert.equal(outcome.code, 130, outcome.stderr);
      assertSentence(outcome, /^denoise: Cancelled$/);
      assert.deepEqual([...Deno.readDirSync(folder)], []);
    } finally {
      Deno.removeSync(folder, { recursive: true });
    }
  },
});

/** Waits until a process listens to SIGINT; only Linux tells. */
async function untilHeeding(pid: number): Promise<void> {
  const isHeeding = async () => {
    const status = await Deno.readTextFile(`/proc/${pid}/status`);
    const [, caught] = /^SigCgt:\s*(\w+)/m.exec(status)!;
    return (BigInt(`0x${caught}`) >> 1n) % 2n === 1n;
  };
  while (Deno.build.os === "linux" && !await isHeeding()) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
