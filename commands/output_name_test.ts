import { strict as assert } from "node:assert";
import { checkOutput, checkWindowsName, nameForPrompt, outputPaths } from "./output_name.ts";

Deno.test("outputPaths() numbers the files only when there are several", () => {
  assert.deepEqual(outputPaths("a/b.png", 1), ["a/b.png"]);
  assert.deepEqual(outputPaths("a.b/c.png", 2), ["a.b/c-0.png", "a.b/c-1.png"]);
  assert.deepEqual(outputPaths("a.b/c", 2), ["a.b/c-0", "a.b/c-1"]);
});

Deno.test("nameForPrompt() makes a plain name of any prompt", () => {
  const now = new Date(2026, 0, 2, 3, 4, 5);
  const name = (prompt: string) => nameForPrompt(prompt, now, "0a1b2c3d");
  assert.equal(name("a red circle"), "a_red_circle_20260102-030405_0a1b2c3d");
  assert.equal(name("../../etc/ä b"), "etc_a_b_20260102-030405_0a1b2c3d");
  assert.equal(name("○"), "20260102-030405_0a1b2c3d");
  assert.ok(name("x".repeat(1000)).length <= 150);
});

Deno.test("checkWindowsName() refuses what Windows cannot write", () => {
  for (const path of ["C:\\a b\\ü.png", "x/y.png", "..\\console.png", "\\\\?\\C:\\a.png"]) {
    checkWindowsName(path);
  }
  for (const path of ["a?b.png", "x|y.png", "ab:cd.png", "C:\\a:b.png"]) {
    assert.throws(() => checkWindowsName(path), /Windows allows no . in names/, path);
  }
  for (const path of ["con.png", "C:\\x\\NUL", "lpt1.a.png"]) {
    assert.throws(() => checkWindowsName(path), /is a device of Windows/, path);
  }
  checkWindowsName(`C:\\${"x".repeat(255)}`);
  assert.throws(() => checkWindowsName("x".repeat(300)), /255 characters at most, not 300/);
});

Deno.test({
  name: "checkOutput() says of a drive that is missing that the folder is not there",
  ignore: Deno.build.os !== "windows",
  fn() {
    assert.throws(
      () => checkOutput("Q:\\x.png"),
      /Cannot write Q:.x\.png: its folder is not there/,
    );
  },
});
