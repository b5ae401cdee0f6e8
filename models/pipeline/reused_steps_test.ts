import assert from "node:assert/strict";
import { reusingSteps } from "./reused_steps.ts";

Deno.test("reusingSteps() spares the first steps and the last one, and reuses more where steps are close", () => {
  const steps = (count: number) => {
    return reusingSteps(Float64Array.from({ length: count }, (_, i) => 1000 * (1 - i / count)));
  };
  for (const count of [1, 2, 4, 8, 12]) assert.deepEqual(steps(count), [], `${count}`);
  for (const count of [20, 50]) {
    const reused = steps(count);
    assert.ok(reused.every((step) => step >= 0.4 * count && step < count - 1), `${reused}`);
    // None stands for another that was not computed either.
    assert.ok(reused.every((step) => !reused.includes(step - 1)), `${reused}`);
  }
  assert.ok(steps(50).length > steps(20).length);
  assert.ok(steps(20).length >= 5);
});
