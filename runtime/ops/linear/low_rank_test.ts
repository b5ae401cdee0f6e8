import assert from "node:assert/strict";
import { Graph } from "../../graph.ts";
import { planMemory } from "../../plan.ts";
import { instantiate } from "../../executable.ts";
import { DeviceTensor } from "../../device_tensor.ts";
import { BASELINE_TARGET } from "../../target.ts";
import { copyTo } from "../copy/mod.ts";
import { ndarray, randomNormal } from "../ndarray.ts";
import { type LowRankAdapter, packLowRank } from "./low_rank.ts";
import { linear } from "./mod.ts";
import { linearReference } from "./reference.ts";
import { openTestDevice } from "../../../tests/model_run.ts";

const [M, N, K] = [5, 12, 7];

function lora(rank: number, scale: number, columns?: [number, number]): LowRankAdapter {
  return {
    rank,
    down: randomNormal([rank, K], rank).data,
    up: randomNormal([columns?.[1] ?? N, rank], rank + 1).data,
    scale,
    ...(columns && { columns }),
  };
}

Deno.test("packLowRank() makes one branch that adds what all LoRAs add", () => {
  const loras = [lora(2, 0.5), lora(3, -2, [4, 5]), lora(1, 0, [0, 1])];
  const { rank, down, up, scales } = packLowRank(N, K, loras);
  assert.equal(rank, 8);
  const [x, w] = [randomNormal([M, K], 1), randomNormal([N, K], 2)];
  const packed = linearReference({
    x,
    w,
    down: ndarray([rank, K], Float64Array.from(down)),
    up: ndarray([N, rank], Float64Array.from(up)),
    scales: ndarray([rank], Float64Array.from(scales)),
  });
  // The weight with every LoRA merged into it.
  for (const { rank, down, up, scale, columns: [start, count] = [0, N] } of loras) {
    for (let row = 0; row < count; row++) {
      for (let i = 0; i < K; i++) {
        for (let j = 0; j < rank; j++) {
          w.data[(start + row) * K + i]! += scale * up[row * rank + j]! * down[j * K + i]!;
        }
      }
    }
  }
  const merged = linearReference({ x, w });
  packed.data.forEach((value, i) => {
    const difference = Math.abs(value - merged.data[i]!);
    assert.ok(difference < 1e-5, `element ${i} is ${value}, merged ${merged.data[i]}`);
  });
});

Deno.test("packLowRank() leaves outputs outside of a LoRA's columns alone", () => {
  const { rank, up } = packLowRank(N, K, [lora(4, 1, [3, 2])]);
  for (let row = 0; row < N; row++) {
    const isZero = up.subarray(row * rank, (row + 1) * rank).every((value) => value === 0);
    assert.equal(isZero, row < 3 || row >= 5, `row ${row}`);
  }
});

Deno.test("packLowRank() refuses sizes that do not fit the layer", () => {
  assert.throws(
    () => packLowRank(N, K + 1, [lora(2, 1)]),
    /Cannot pack LoRA 0 of rank 2 for outputs 0 to 12 of a layer \[12, 8\]/,
  );
  assert.throws(() => packLowRank(N, K, [lora(2, 1, [10, 3])]), /outputs 10 to 13/);
});

Deno.test("linear() refuses a low-rank branch whose sizes do not fit the weight", () => {
  const graph = new Graph("test", BASELINE_TARGET);
  const tensor = (name: string, ...shape: number[]) => graph.use(new DeviceTensor(name, shape));
  const [x, w] = [tensor("x", M, K), tensor("w", N, K)];
  const lowRank = { down: tensor("down", 4, K), up: tensor("up", N, 4), scales: tensor("s", 4) };
  for (
    const part of [
      { down: tensor("down", 4, K + 1) },
      { up: tensor("up", N, 3) },
      { up: graph.use(new DeviceTensor("up", [N, 4], "i32")) },
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
    const branch = packLowRank(N, K, [lora(3, 1)]);
    const tensor = (name: string, shape: number[], values: ArrayLike<number>) => {
      const tensor = new DeviceTensor(name, shape).allocate(device);
      tensor.write(values);
      return tensor;
    };
    const tensors = {
      x: tensor("x", [M, K], randomNormal([M, K], 1).data),
      w: tensor("w", [N, K], randomNormal([N, K], 2).data),
      down: tensor("down", [branch.rank, K], branch.down),
      up: tensor("up", [N, branch.rank], branch.up),
      scales: tensor("scales", [branch.rank], branch.scales),
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
      tensors.scales.write(branch.scales.map((value) => value * scale));
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
