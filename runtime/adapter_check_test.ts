import assert from "node:assert/strict";
import { runSelfTests } from "./adapter_check.ts";
import { openDevice } from "./open_device.ts";
import type { OpCase } from "./conformance.ts";
import { ndarray } from "./ops/ndarray.ts";
import type { Check, Op } from "./ops/op.ts";
import { softmax } from "./ops/softmax/mod.ts";

const RIGHT: OpCase = {
  name: "one element",
  inputs: { x: { values: ndarray([1, 1]), dtype: "f32" } },
  build: ({ x }) => [softmax(x!)],
  reference: () => [ndarray([1, 1], Float64Array.of(1))],
  tolerance: 1e-6,
};

const WRONG: OpCase = { ...RIGHT, reference: () => [ndarray([1, 1], Float64Array.of(2))] };

const suites = [{ variants: ["row", "group"], cases: [RIGHT, RIGHT, WRONG] }];

async function outcomesOf(op: Partial<Op>) {
  const device = await openDevice();
  try {
    const results = await runSelfTests(device, [{ name: "softmax", suites, ...op }]);
    return results.map(({ name, outcome, detail }) => `${outcome} ${name}: ${detail}`);
  } finally {
    device.destroy();
  }
}

const check = (part: Partial<Check>): Check => ({ name: "softmax", cases: [RIGHT], ...part });

Deno.test("runSelfTests() runs an op's first two cases where it names no checks", async () => {
  assert.deepEqual(await outcomesOf({}), ["passed softmax: 2 cases within tolerance"]);
});

Deno.test("runSelfTests() says skipped, and why, of a check that ran nothing", async () => {
  const checks = [
    check({ variant: "matrix", whyNot: () => "the adapter lists no matrix units" }),
    check({ variant: "none" }),
    check({ cases: [] }),
  ];
  assert.deepEqual(await outcomesOf({ checks }), [
    "skipped softmax: the adapter lists no matrix units",
    'skipped softmax: Cannot run softmax as "none": this variant does not take the problem',
    "skipped softmax: it has no cases",
  ]);
});

Deno.test("runSelfTests() fails a check of which one case is wrong", async () => {
  const [line] = await outcomesOf({ checks: [check({ cases: [RIGHT, WRONG] })] });
  assert.match(line!, /^failed softmax: .*worst element at \[0,0\] is 1, the reference says 2/);
});
