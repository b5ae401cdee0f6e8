import { strict as assert } from "node:assert";
import { testsReached } from "./changed_tests.ts";

const SOURCES = new Map([
  ["runtime/a.ts", 'import text from "./k.wgsl" with { type: "text" };'],
  ["runtime/a_test.ts", 'import { a } from "./a.ts";'],
  ["models/b.ts", 'import { a } from "../runtime/a.ts"; import type { C } from "./c.ts";'],
  ["models/b_test.ts", 'import { b } from "./b.ts";'],
  ["models/c.ts", "export interface C {}"],
  ["models/c_test.ts", 'import { c } from "./c.ts";'],
  ["cli.ts", 'await import("./models/b.ts");'],
  ["tests/support/process.ts", 'start(new URL("cli.ts", ROOT));'],
  ["tests/e2e/run_test.ts", 'import { start } from "../support/process.ts";'],
  ["tests/data_test.ts", 'read(new URL("./inputs/", import.meta.url));'],
  ["tests/house/imports_test.ts", ""],
]);
const HOUSE = "tests/house/imports_test.ts";

Deno.test("testsReached() follows imports, texts, programs that tests start, and folders that they read", () => {
  const cases: [changed: string, tests: string[]][] = [
    ["models/c_test.ts", ["models/c_test.ts"]],
    ["models/c.ts", ["models/c_test.ts"]],
    ["models/b.ts", ["models/b_test.ts", "tests/e2e/run_test.ts"]],
    ["runtime/k.wgsl", ["runtime/a_test.ts", "models/b_test.ts", "tests/e2e/run_test.ts"]],
    ["tests/inputs/deep/x.json", ["tests/data_test.ts"]],
    ["README.md", []],
  ];
  for (const [changed, tests] of cases) {
    assert.deepEqual(testsReached(SOURCES, [changed]), [...tests, HOUSE], changed);
  }
});

Deno.test("testsReached() names no tests where a change reaches all of them", () => {
  for (const path of ["deno.json", "tests/goldens/wan/config.json", "denoise"]) {
    assert.equal(testsReached(SOURCES, [path]), undefined, path);
  }
});
