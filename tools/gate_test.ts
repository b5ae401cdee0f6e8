import { strict as assert } from "node:assert";
import {
  batchesOf,
  batchModule,
  countsLine,
  countTests,
  failureText,
  progressText,
  slowestTests,
} from "./gate.ts";

Deno.test("countTests() reads the summary of a run that passed", () => {
  const output = "a ... ok (1ms)\n\nok | 12 passed (3 steps) | 0 failed | 2 ignored (41ms)\n";
  assert.deepEqual(countTests(output, 0), { passed: 12, failed: 0, skipped: 2 });
});

Deno.test("countTests() reads the summary of a run that failed", () => {
  const output = "FAILED | 1 passed (1 step) | 3 failed (1 step) (9ms)\nerror: Test failed\n";
  assert.deepEqual(countTests(output, 1), { passed: 1, failed: 3, skipped: 0 });
});

Deno.test("countTests() takes the last summary, not one that a test printed", () => {
  const output = "ok | 99 passed | 0 failed (1ms)\nok | 1 passed | 0 failed (1ms)\n";
  assert.equal(countTests(output, 0).passed, 1);
});

Deno.test("countTests() counts a run without a summary as one failure", () => {
  assert.deepEqual(countTests("panicked at naga\n", 134), { passed: 0, failed: 1, skipped: 0 });
  assert.equal(countTests("", 0).failed, 1);
});

Deno.test("countTests() counts a bad exit status as a failure where no test failed", () => {
  assert.equal(countTests("ok | 5 passed | 0 failed (1ms)\n", 1).failed, 1);
});

Deno.test("countsLine() names skips only where there are some", () => {
  assert.equal(countsLine({ passed: 3, failed: 1, skipped: 0 }), "3 passed, 1 failed");
  assert.equal(countsLine({ passed: 3, failed: 0, skipped: 2 }), "3 passed, 0 failed, 2 skipped");
});

Deno.test("failureText() starts at the list of errors, or gives everything", () => {
  assert.equal(failureText("a ... ok\n\n ERRORS \n\nb => x\n"), " ERRORS \n\nb => x");
  assert.equal(failureText("panicked\n"), "panicked");
});

Deno.test("progressText() counts tests of all runs but not steps, and names the last ones at work", () => {
  const one = "running 5 tests from ./batch0_test.ts\nx ...\n  step ... ok (1ms)\nx ... ok (1s)\n" +
    "y ...noise\n ok (2ms)\nz ... FAILED (3ms)\nw ...\n  step ... ok (1ms)\n";
  const two = "running 1 test from ./batch1_test.ts\nv ... ok (1s)\n";
  const ended =
    "running 1 test from ./batch2_test.ts\nx ... ok (1s)\n\nok | 1 passed | 0 failed (1s)\n";
  assert.equal(progressText([one, two, ended], 9), "4 passed, 1 failed, batch 3 of 9: w; v");
  assert.equal(progressText([], 9), "0 passed, 0 failed, batch 0 of 9");
});

Deno.test("batchesOf() keeps the order, with files that compile most before the others", () => {
  const files = Array.from({ length: 20 }, (_, i) => `tests/${i}_test.ts`);
  const compiling = ["tests/wan/single_files_test.ts", "runtime/a_test.ts"];
  const batches = batchesOf([compiling[0]!, ...files, compiling[1]!]);
  assert.deepEqual(batches.flat(), [...compiling, ...files]);
  assert.deepEqual(batches.map(({ length }) => length), [2, 16, 4]);
});

Deno.test("batchModule() makes a file that does not load a test that fails", async () => {
  const titles: string[] = [];
  const url = `data:text/javascript,${encodeURIComponent(batchModule(["tools/none_test.ts"]))}`;
  const { test } = Deno;
  try {
    Object.assign(Deno, { test: (title: string) => titles.push(title) });
    await import(url);
  } finally {
    Object.assign(Deno, { test });
  }
  assert.deepEqual(titles, ["tools/none_test.ts loads"]);
});

Deno.test("slowestTests() sorts tests by their time, and leaves out their steps", () => {
  const line = (name: string, time: string) =>
    `<testcase name="${name}" classname="./a_test.ts" time="${time}" line="1" col="6">`;
  const report = [line("a &lt; b", "0.5"), line("c &gt; d", "2.25"), line("a &lt; b &gt; s", "9")];
  const path = "a_test.ts";
  assert.deepEqual(slowestTests(report.join("\n"), 5), [
    { title: "c > d", path, seconds: 2.25 },
    { title: "a < b", path, seconds: 0.5 },
  ]);
  assert.equal(slowestTests(report.join("\n"), 1).length, 1);
  assert.deepEqual(slowestTests("", 1), []);
});
