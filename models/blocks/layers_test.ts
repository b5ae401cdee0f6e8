import assert from "node:assert/strict";
import { randomNormal } from "../../runtime/ops/ndarray.ts";
import { assertClose, type Values } from "../../tests/support/golden.ts";
import { ModelRun, openTestDevice } from "../../tests/support/model_run.ts";
import { Checkpoint, Weights } from "../../runtime/mod.ts";
import { safetensorsOf, withFolder } from "../../tests/support/safetensors.ts";
import { gluLayer, linearLayer, linearLayers, wideAttention } from "./layers.ts";

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
      const [dim, scoreBytes, tiles] of [[64, 1, 0], [164, 1e6, 1], [30, 2 * 17 * 4 * 10, 3], [
        192,
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
          const y = wideAttention(query!, key!, value!, { scoreBytes });
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

Deno.test("linearLayers() equals its layers one by one, in one product where they are stored alike", async () => {
  const stored = (shape: number[], seed: number, dtype: "f32" | "f16" = "f16") => ({
    dtype,
    shape,
    values: Float64Array.from(randomNormal(shape, seed).data),
  });
  const tensors = {
    "q.weight": stored([8, 12], 1),
    "q.bias": stored([8], 2),
    "k.weight": stored([8, 12], 3),
    "k.bias": stored([8], 4),
    "v.weight": stored([8, 12], 5, "f32"),
    "v.bias": stored([8], 6),
    "w.weight": stored([8, 12], 7),
  };
  const device = await openTestDevice();
  try {
    await withFolder({ "model.safetensors": safetensorsOf(tensors) }, async (folder) => {
      using checkpoint = Checkpoint.open(folder);
      const cases = [[["q", "k"], 1], [["q", "v"], 4], [["q", "w"], 4]] as const;
      for (const [names, dispatches] of cases) {
        const weights = new Weights(checkpoint);
        using run = await ModelRun.prepare(
          device,
          weights,
          { x: randomNormal([2, 5, 12], 8) },
          (graph, { x }) => {
            const y = linearLayers(weights.root, names, x!, 8);
            assert.equal(graph.dispatches.length, dispatches, names.join());
            const [first, second] = names.map((name) => linearLayer(weights.root, name, x!, 8));
            return { y, first: first!, second: second! };
          },
        );
        await run.run();
        const y = await run.read("y");
        assert.deepEqual(y.shape, [2, 2, 5, 8]);
        const [first, second] = [await run.read("first"), await run.read("second")];
        const both = [first, second].flatMap(({ data }) => Array.from(data));
        assert.deepEqual(Array.from(y.data), both);
        weights.destroy();
      }
    });
  } finally {
    device.destroy();
  }
});

Deno.test("gluLayer() equals its two layers, in one product on GPUs where they are stored alike", async () => {
  const stored = (seed: number, dtype: "f32" | "f16" = "f16") => ({
    dtype,
    shape: [8, 12],
    values: Float64Array.from(randomNormal([8, 12], seed).data),
  });
  const tensors = {
    "gate.weight": stored(1),
    "up.weight": stored(2),
    "wide.weight": stored(3, "f32"),
  };
  for (const schedule of ["cpu", "gpu"] as const) {
    const device = await openTestDevice({ schedule });
    try {
      await withFolder({ "model.safetensors": safetensorsOf(tensors) }, async (folder) => {
        using checkpoint = Checkpoint.open(folder);
        for (const up of ["up", "wide"]) {
          const weights = new Weights(checkpoint);
          using run = await ModelRun.prepare(
            device,
            weights,
            { x: randomNormal([2, 5, 12], 8) },
            (graph, { x }) => {
              const y = gluLayer(weights.root, ["gate", up], x!, 8, "silu");
              // A software adapter leaves few activations to a kernel of their own.
              const products = schedule === "cpu" ? 3 : up === "up" ? 1 : 2;
              assert.equal(graph.dispatches.length, products, `${schedule} ${up}`);
              const gate = linearLayer(weights.root, "gate", x!, 8, { activation: "silu" });
              return { y, expected: linearLayer(weights.root, up, x!, 8, { gate }) };
            },
          );
          await run.run();
          const expected = await run.read("expected");
          assertClose(`${schedule} ${up}`, await run.read("y"), expected, 1e-6);
          weights.destroy();
        }
      });
    } finally {
      device.destroy();
    }
  }
});
