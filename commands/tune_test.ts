import { strict as assert } from "node:assert";
import type { TuningReport } from "../engine/reports.ts";
import { describeTuning } from "./tune.ts";

const REPORT: TuningReport = {
  adapter: "Test GPU",
  kernels: [
    { op: "linear", problemClass: "rows<=4", variant: "rows", why: "measured: 2.0× shared64" },
    { op: "linear", problemClass: "rows<=256", variant: "shared64", why: "rule for gpu adapters" },
    { op: "softmax", problemClass: "rows>256", variant: "row", why: "measured: 1.1× group" },
  ],
  tuning: {
    choices: {},
    excluded: ['softmax rows>256 as "group": its result differs'],
    classes: { measured: 2, known: 3 },
    seconds: 12.34,
  },
  path: "/cache/test-gpu.json",
};

Deno.test("describeTuning() lists the kernels by op, in columns", () => {
  const lines = describeTuning(REPORT).split("\n");
  assert.deepEqual(lines.slice(1, 6), [
    "linear",
    "  rows<=4    rows      measured: 2.0× shared64",
    "  rows<=256  shared64  rule for gpu adapters",
    "softmax",
    "  rows>256   row       measured: 1.1× group",
  ]);
});

Deno.test("describeTuning() says what failed, how long it took and where it is kept", () => {
  const text = describeTuning(REPORT);
  assert.match(text, /^Not used here: softmax rows>256 as "group"/m);
  assert.match(text, /Measured 2 of 3 classes in 12\.3 s; run it again for the rest/);
  assert.match(text, /Kept in \/cache\/test-gpu\.json$/);
  assert.match(describeTuning({ ...REPORT, path: undefined }), /could not be kept$/);
});
