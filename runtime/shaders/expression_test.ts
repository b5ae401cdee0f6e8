import assert from "node:assert/strict";
import { evaluate, evaluateCount } from "./expression.ts";
import type { Value } from "./names.ts";

const SCOPE = new Map<string, Value>([
  ["ROWS", 6],
  ["FLAG", true],
  ["KIND", "rms"],
  ["INPUTS", ["a", "b"]],
  ["R", 2],
]);

Deno.test("evaluate() knows the operators of WGSL with their order", () => {
  const cases: [string, Value][] = [
    ["1 + 2 * 3 - 4", 3],
    ["(ROWS + 3) / 4 % 2", 0],
    ["ROWS >= 6 && !FLAG || ROWS != 6", false],
    ["-1 < 0 == FLAG", true],
    ["KIND == rms", true],
    ["a in INPUTS && !(c in INPUTS)", true],
    ["ROWS > 4 ? wide : FLAG ? 1 : 2", "wide"],
    ['"vec4<f32>(s_R)"', "vec4<f32>(s_2)"],
    ["true", true],
  ];
  for (const [text, value] of cases) assert.deepEqual(evaluate(text, SCOPE), value, text);
});

Deno.test("evaluate() refuses unknown names, other types and what is no expression", () => {
  const cases: [string, RegExp][] = [
    ["COLUMNS + 1", /^"COLUMNS" is not known here$/],
    ["ROWS && FLAG", /needs true or false where it has 6$/],
    ["FLAG + 1", /needs a number where it has true$/],
    ["a in KIND", /looks for a word in rms$/],
    ["1 +", /ends where a value is needed$/],
    ["1 2", /goes on with "2"$/],
    ["(1", /lacks a "\)"$/],
    ["FLAG ? 1", /has "\?" without ":"$/],
    ["* 2", /has "\*" out of place$/],
    ["1 @ 2", /has ".*" in it$/],
  ];
  for (const [text, message] of cases) {
    assert.throws(() => evaluate(text, SCOPE), { name: "SyntaxError", message }, text);
  }
});

Deno.test("evaluateCount() refuses what is no whole number from 0 on", () => {
  assert.equal(evaluateCount("ROWS - 6", SCOPE), 0);
  for (const text of ["ROWS - 7", "KIND", "FLAG"]) {
    assert.throws(() => evaluateCount(text, SCOPE), /a count is needed/, text);
  }
});
