import { strict as assert } from "node:assert";
import { elementwise } from "../runtime/mod.ts";
import { ModelRun, openTestDevice } from "../tests/support/model_run.ts";
import { rearrange } from "./rearrange.ts";

const SHAPE = [1, 3, 4, 6];
const INPUT = { shape: SHAPE, data: Float32Array.from({ length: 72 }, (_, i) => i) };

Deno.test("rearrange() cuts latents into patches and puts them together again", async () => {
  const device = await openTestDevice();
  try {
    const sizes = { y: 2, i: 2, j: 2 };
    using run = await ModelRun.prepare(device, undefined, { x: INPUT }, (_, { x }) => {
      const tokens = rearrange(x!, "1 c (y i) (x j) -> 1 (y x) (i j c)", sizes);
      return { tokens, back: rearrange(tokens, "1 (y x) (i j c) -> 1 c (y i) (x j)", sizes) };
    });
    await run.run();
    const expected: number[] = [];
    for (const [y, x] of [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]] as const) {
      for (const [i, j] of [[0, 0], [0, 1], [1, 0], [1, 1]] as const) {
        for (let c = 0; c < 3; c++) expected.push(c * 24 + (2 * y + i) * 6 + 2 * x + j);
      }
    }
    const tokens = await run.read("tokens");
    assert.deepEqual([tokens.shape, Array.from(tokens.data)], [[1, 6, 12], expected]);
    const back = await run.read("back");
    assert.deepEqual([back.shape, Array.from(back.data)], [SHAPE, Array.from(INPUT.data)]);
  } finally {
    device.destroy();
  }
});

Deno.test("rearrange() refuses patterns that lose axes, and tensors that do not split so", async () => {
  const device = await openTestDevice();
  try {
    using run = await ModelRun.prepare(device, undefined, { x: INPUT }, (_, { x }) => {
      const refused = (pattern: string, reason: RegExp, sizes = {}) =>
        assert.throws(() => rearrange(x!, pattern, sizes), reason);
      refused("1 c y x -> 1 c y", /every axis is needed once/);
      refused("1 c y y -> 1 c y", /every axis is needed once/);
      refused("1 c y x", /every axis is needed once/);
      refused("c y x -> x y c", /the pattern has 3 dimensions/);
      refused("b c (y i) x -> b c y i x", /dimension 2 does not split into y = \?, i = \?/);
      refused("b c (y i) x -> b c y i x", /dimension 2 does not split into y = \?, i = 3/, {
        i: 3,
      });
      refused("b c (y i) x -> b c y i x", /dimension 2 does not split/, { y: 2, i: 3 });
      refused("1 1 y x -> y x", /dimension 1 does not split into 1/);
      return { x: elementwise("x", { x: x! }) };
    });
    await run.run();
  } finally {
    device.destroy();
  }
});
