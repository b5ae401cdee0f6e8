import assert from "node:assert/strict";
import { applyStep } from "../../tests/support/apply_step.ts";
import { strengthStart } from "./schedule.ts";

Deno.test("strengthStart() rounds the first step down, or the number of steps down", () => {
  assert.equal(strengthStart(4, 0.6, "start"), 1);
  assert.equal(strengthStart(4, 0.6, "steps"), 2);
  assert.equal(strengthStart(50, 0.8, "start"), 10);
  assert.equal(strengthStart(50, 1, "steps"), 0);
});

Deno.test("strengthStart() leaves one step at least", () => {
  assert.deepEqual([strengthStart(1, 0.8, "steps"), strengthStart(1, 0.8, "start")], [0, 0]);
  assert.equal(strengthStart(4, 1e-20, "start"), 3);
  assert.deepEqual([strengthStart(4, 0.2, "steps"), strengthStart(4, 0.2, "start")], [3, 3]);
});

Deno.test("strengthStart() refuses a strength of 0 or out of range", () => {
  assert.throws(() => strengthStart(4, 0, "start"), /no step is left to run/);
  assert.throws(() => strengthStart(4, 0, "steps"), /no step is left to run/);
  for (const strength of [-0.1, 1.1, NaN]) {
    assert.throws(() => strengthStart(4, strength, "start"), /between 0 and 1/);
  }
});

Deno.test("applyStep() reads every term before it writes the target, and keeps the order", () => {
  const sample = Float64Array.of(1, 2);
  const history0 = Float64Array.of(10, 20);
  applyStep([
    {
      target: "history0",
      terms: [{ tensor: "history0", scale: 2 }, { tensor: "sample", scale: 1 }],
    },
    { target: "sample", terms: [{ tensor: "history0", scale: -1 }] },
  ], { sample, history0 });
  assert.deepEqual([...history0], [21, 42]);
  assert.deepEqual([...sample], [-21, -42]);
});
