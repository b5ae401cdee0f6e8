import assert from "node:assert/strict";
import { BASELINE_TARGET } from "../../runtime/mod.ts";
import { OP_SUITES } from "../../runtime/ops/registry.ts";
import { qwen3Encode } from "../model_parts.ts";
import { parseCase, specOf } from "../loaded_op.ts";
import { QWEN3_CONFIG } from "../../models/text_encoders/qwen3.ts";
import { allChecks } from "./correctness.ts";
import { LADDER, scaled } from "./ops.ts";
import { fit, type PartJob } from "./parts.ts";

Deno.test("allChecks() has every case of every variant once, the first of each first", () => {
  const checks = allChecks();
  const suites = OP_SUITES.flatMap(({ variants, cases }) => variants.map(() => cases.length));
  assert.equal(checks.length, suites.reduce((sum, count) => sum + count, 0));
  const first = checks.slice(0, suites.length);
  assert.deepEqual(new Set(first.map(({ op }) => op)), new Set(OP_SUITES.map(({ op }) => op)));
  assert.equal(new Set(checks).size, checks.length);
});

Deno.test("LADDER's ops are known, as they are and scaled for a slow adapter", () => {
  for (const spec of LADDER) {
    const op = parseCase(spec);
    assert.equal(specOf(scaled(op, 500, { flopsPerSecond: 1e16 })), spec);
    const small = scaled(op, 50, { flopsPerSecond: 2e10 });
    assert.ok(small.flops <= op.flops);
    assert.equal(small.op, op.op);
  }
  const [linear] = LADDER.map(parseCase) as [ReturnType<typeof parseCase>];
  // A quarter of 10 TFLOP/s for 40 ms are 0.1 TFLOP, a row 79 MFLOP.
  const rows = scaled(linear, 40, { flopsPerSecond: 10e12 }).sizes[0]!;
  assert.ok(rows % 64 === 0 && rows > 600 && rows <= 1272, `${rows} rows`);
});

const JOB: PartJob = {
  title: "a language model",
  format: "BF16",
  weight: 1,
  layers: 8,
  sizes: [{ width: 64, height: 64 }, { width: 32, height: 32 }],
  part: (layers) =>
    qwen3Encode(
      QWEN3_CONFIG.parse({
        ...{ hidden_size: 1024, intermediate_size: 1024, num_hidden_layers: layers },
        ...{ num_attention_heads: 4, num_key_value_heads: 2, head_dim: 64 },
      }),
      64,
    ),
};

Deno.test("fit() takes layers away where time or memory is short, and gives up nothing where it is not", () => {
  const fitted = (rate: number, room: number) => {
    const { layers, size } = fit(JOB, BASELINE_TARGET, { layerFlopsPerSecond: rate }, 1, room);
    return [layers, size.width];
  };
  assert.deepEqual(fitted(1e15, 1e12), [8, 64]);
  const [slow] = fitted(1.5e10, 1e12);
  assert.ok(slow! > 1 && slow! < 8, `${slow} layers`);
  const [narrow] = fitted(1e15, 50e6);
  assert.ok(narrow! > 1 && narrow! < 8, `${narrow} layers`);
  assert.deepEqual(fitted(1e3, 1e12), [1, 32]);
});
