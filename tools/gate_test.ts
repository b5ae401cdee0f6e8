import { strict as assert } from "node:assert";
import { countsLine, countTests, failureText } from "./gate.ts";

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
