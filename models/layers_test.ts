import assert from "node:assert/strict";
import { randomNormal } from "../runtime/ops/ndarray.ts";
import { assertClose, type Values } from "../tests/golden.ts";
import { ModelRun, openTestDevice } from "../tests/model_run.ts";
import { wideAttention } from "./layers.ts";

/** Softmax attention with one head, in double precision. */
function attentionReference(query: Values, key: Values, value: Values): Values {
  const [batch, tokens, dim] = query.shape as [number, number, number];
  const keys = key.shape[1]!;
  const data = new Float64Array(batch * tokens * dim);
  for (let b = 0; b < batch; b++) {
    for (let i = 0; i < tokens; i++) {
      const logits = Array.from({ length: keys }, (_, j) => {
        let sum = 0;
        for (let c = 0; c < dim; c++) {
          sum += query.data[(b * tokens + i) * dim + c]! * key.data[(b * keys + j) * dim + c]!;
        }
        return sum / Math.sqrt(dim);
      });
      const highest = Math.max(...logits);
      const weights = logits.map((logit) => Math.exp(logit - highest));
      const total = weights.reduce((sum, weight) => sum + weight, 0);
      for (let c = 0; c < dim; c++) {
        let sum = 0;
        weights.forEach((weight, j) => sum += weight * value.data[(b * keys + j) * dim + c]!);
        data[(b * tokens + i) * dim + c] = sum / total;
      }
    }
  }
  return { shape: query.shape, data };
}

Deno.test("wideAttention() equals attention for fused heads, wider heads, and scores held tile by tile", async () => {
  const device = await openTestDevice();
  try {
    // [width, bytes of scores], and the number of tiles that 23 queries on 2 x 17 scores make.
    for (
      const [dim, scoreBytes, tiles] of [[64, 1, 0], [132, 1e6, 1], [30, 2 * 17 * 4 * 10, 3], [
        160,
        1,
        23,
      ]]
    ) {
      const query = randomNormal([2, 23, dim!], 1);
      const key = randomNormal([2, 17, dim!], 2);
      const value = randomNormal([2, 17, dim!], 3);
      using run = await ModelRun.prepare(
        device,
        undefined,
        { query, key, value },
        (graph, { query, key, value }) => {
          const y = wideAttention(query!, key!, value!, scoreBytes);
          const products = graph.dispatches.filter(({ kernel }) => kernel.name.includes("softmax"));
          assert.equal(products.length, tiles);
          return { y };
        },
      );
      await run.run();
      const expected = attentionReference(query, key, value);
      assertClose(`width ${dim}`, await run.read("y"), expected, 1e-5);
    }
  } finally {
    device.destroy();
  }
});
