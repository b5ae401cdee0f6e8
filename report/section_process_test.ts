import assert from "node:assert/strict";
import { withoutPaths } from "./run_section.ts";
import { runSectionProcess } from "./section_process.ts";
import type { SectionOrder } from "./sections/section.ts";
import type { SectionResult } from "./types.ts";

const ORDER: SectionOrder = { name: "tuning", device: {}, seconds: 5, known: {} };

/** Runs a script in place of the program that runs sections. */
async function run(
  script: string,
  seconds = ORDER.seconds,
): Promise<{ result: SectionResult; begun: string[] }> {
  const begun: string[] = [];
  const say = "const say = (line) => console.log('denoise-report ' + JSON.stringify(line));";
  const result = await runSectionProcess(
    { ...ORDER, seconds },
    [Deno.execPath(), "eval", "--quiet", `${say}${script}`],
    (what) => begun.push(what),
    0,
  );
  return { result: { ...result, seconds: 0 }, begun };
}

const COMMON = { name: "tuning", backend: "deno", seconds: 0 } as const;

Deno.test("runSectionProcess() takes what the process found last, among what drivers print", async () => {
  const { result, begun } = await run(`
    const order = JSON.parse(await new Response(Deno.stdin.readable).text());
    console.log("MESA: hello");
    say({ type: "begin", what: order.name });
    say({ type: "found", data: { runs: 1 } });
    say({ type: "found", data: { runs: 2 } });
    say({ type: "end", isComplete: true });`);
  assert.deepEqual(result, { ...COMMON, state: "done", data: { runs: 2 } });
  assert.deepEqual(begun, ["tuning"]);
});

Deno.test("runSectionProcess() keeps what was found before the process broke down, and says at what", async () => {
  const { result } = await run(`
    say({ type: "found", data: {} });
    say({ type: "begin", what: "a kernel" });
    console.error("panicked at\\n/home/somebody/naga/back.rs");
    Deno.exit(3);`);
  assert.deepEqual(result, {
    ...COMMON,
    state: "failed",
    data: {},
    reason: 'its process ended with 3 (panicked at …/back.rs) at "a kernel"',
  });
});

Deno.test("runSectionProcess() ends a process that does not end, and one that fails says why", async () => {
  const late = await run(
    `say({ type: "begin", what: "a loop" }); await new Promise(() => setInterval(() => {}, 1e6));`,
    1,
  );
  assert.deepEqual(late.result, {
    ...COMMON,
    state: "cut",
    reason: 'it did not end in time at "a loop"',
  });
  const failed = await run(`say({ type: "failed", message: "Cannot find a GPU" });`);
  assert.deepEqual(failed.result, { ...COMMON, state: "failed", reason: "Cannot find a GPU" });
});

Deno.test("withoutPaths() leaves the names of files and nothing of the folders that they are in", () => {
  for (
    const [text, expected] of [
      [
        "Cannot use Dawn: /home/me/.cache/x/dawn.node does not start",
        "Cannot use Dawn: …/dawn.node does not start",
      ],
      ["at file:///Users/me/denoise/cli.ts:3:4", "at …/cli.ts:3:4"],
      ["C:\\Users\\me\\denoise.exe ended", "…/denoise.exe ended"],
      ["linear/rows takes 1/2 of it", "linear/rows takes 1/2 of it"],
    ] as const
  ) assert.equal(withoutPaths(text), expected);
  const home = "C:\\Users\\Jo Doe";
  for (
    const text of [
      `at ${home}\\denoise\\x.ts:3`,
      "at C:/Users/Jo Doe/denoise/x.ts:3",
      "at file:///C:/Users/Jo%20Doe/denoise/x.ts:3",
    ]
  ) assert.match(withoutPaths(text, home), /^at (?:file:\/\/)?\/?…\/x\.ts:3$/);
});
