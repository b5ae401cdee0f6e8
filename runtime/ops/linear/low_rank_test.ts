import assert from "node:assert/strict";
import { Graph } from "../../graph/graph.ts";
import { planMemory } from "../../program/plan.ts";
import { instantiate } from "../../program/executable.ts";
import { DeviceTensor } from "../../device/device_tensor.ts";
import { BASELINE_TARGET } from "../../target.ts";
import { copyTo } from "../copy/mod.ts";
import { randomNormal } from "../ndarray.ts";
import { linear } from "./mod.ts";
import { openTestDevice } from "../../../tests/support/model_run.ts";

const [M, N, K, RANK] = [5, 12, 7, 4];

Deno.test("linear() refuses a low-rank branch whose sizes do not fit the weight", () => {
  const graph = new Graph("test", BASELINE_TARGET);
  const tensor = (name: string, ...shape: number[]) => graph.use(new DeviceTensor(name, shape));
  const [x, w] = [tensor("x", M, K), tensor("w", N, K)];
  const lowRank = {
    down: tensor("down", RANK, K),
    up: tensor("up", N, RANK),
    scales: tensor("s", RANK),
  };
  for (
    const part of [
      { down: tensor("down", RANK, K + 1) },
      { up: tensor("up", N, 3) },
      { up: graph.use(new DeviceTensor("up", [N, RANK], "i32")) },
      { scales: tensor("s", 1) },
    ]
  ) {
    assert.throws(
      () => linear(x, w, { lowRank: { ...lowRank, ...part } }),
      /Cannot apply linear w \[12, 7\] f32 with down .*: they need \[R, 7\], \[12, R\]/,
    );
  }
  assert.deepEqual(linear(x, w, { lowRank }).shape, [M, N]);
});

Deno.test("linear() follows scales that change between runs, and scales of 0 leave its result as it was", async () => {
  const device = await openTestDevice();
  try {
    const tensor = (name: string, shape: number[], values: ArrayLike<number>) => {
      const tensor = new DeviceTensor(name, shape).allocate(device);
      tensor.write(values);
      return tensor;
    };
    const tensors = {
      x: tensor("x", [M, K], randomNormal([M, K], 1).data),
      w: tensor("w", [N, K], randomNormal([N, K], 2).data),
      down: tensor("down", [RANK, K], randomNormal([RANK, K], 3).data),
      up: tensor("up", [N, RANK], randomNormal([N, RANK], 4).data),
      scales: tensor("scales", [RANK], new Float32Array(RANK)),
    };
    const results = [
      new DeviceTensor("plain", [M, N]),
      new DeviceTensor("adapted", [M, N]),
    ] as const;
    const graph = new Graph("test", device.target);
    const [x, w, down, up, scales] = Object.values(tensors).map((input) => graph.use(input));
    copyTo(linear(x!, w!), results[0]);
    copyTo(linear(x!, w!, { lowRank: { down: down!, up: up!, scales: scales! } }), results[1]);
    for (const result of results) result.allocate(device);
    const programs = await instantiate(planMemory({ main: graph }), device);
    const added = async (scale: number) => {
      tensors.scales.write(new Float32Array(RANK).fill(scale));
      programs.get("main").submit();
      const [plain, adapted] = await Promise.all(results.map((result) => result.read()));
      return adapted!.map((value, i) => value - plain![i]!);
    };
    const once = await added(1);
    const twice = await added(2);
    assert.ok(once.every((value, i) => Math.abs(2 * value - twice[i]!) < 1e-5), `${once} ${twice}`);
    assert.ok(once.some((value) => Math.abs(value) > 0.1));
    assert.ok((await added(0)).every((value) => value === 0));
  } finally {
    device.destroy();
  }
});
