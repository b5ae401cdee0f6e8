/** Results that are computed where they are joined. */
import assert from "node:assert/strict";
import { openTestDevice } from "../../tests/support/model_run.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import { instantiate } from "./executable.ts";
import { Graph, type Tensor } from "../graph/graph.ts";
import { elideJoins } from "./copy_elision.ts";
import { copyTo } from "../ops/copy/mod.ts";
import { elementwise } from "../ops/elementwise/mod.ts";
import { concat, slice } from "../ops/layout/mod.ts";
import { planMemory } from "./plan.ts";
import { BASELINE_TARGET, type Target } from "../target.ts";

const [ROWS, COLUMNS] = [64, 16];

/** Joins, and what they are made from. */
const JOINS: Readonly<Record<string, { build(x: Tensor): Tensor; copies: number }>> = {
  "rows": {
    build: (x) => concat([doubled(x), doubled(slice(x, 0, 0, 16))], 0),
    copies: 0,
  },
  "columns": {
    build: (x) => concat([doubled(x), x, doubled(x)], 1),
    copies: 1,
  },
  "columns one by one": {
    build: (x) => concat([slice(doubled(x), 1, 0, 5), doubled(slice(x, 1, 5, 12))], 1),
    copies: 3,
  },
  "rows where no binding can begin": {
    build: (x) => concat([doubled(slice(x, 0, 0, 1)), doubled(x)], 0),
    copies: 1,
  },
  "rows of every sample": {
    build: (x) => {
      const samples = x.reshape(2, ROWS / 2, COLUMNS);
      return concat([doubled(samples), doubled(samples)], 1);
    },
    copies: 2,
  },
  "what is read elsewhere too": {
    build: (x) => {
      const y = doubled(x);
      return concat([y, elementwise("y + 1.0", { y })], 1);
    },
    copies: 1,
  },
  "the same twice": {
    build: (x) => {
      const y = doubled(x);
      return concat([y, y], 1);
    },
    copies: 2,
  },
  "columns of columns": {
    build: (x) => concat([concat([doubled(x), x], 1), doubled(x)], 1),
    copies: 2,
  },
};

function doubled(x: Tensor): Tensor {
  return elementwise("2.0 * x", { x });
}

/** A graph of a join, and its input and result. */
function traced(build: (x: Tensor) => Tensor, target: Target) {
  const graph = new Graph("test", target);
  const x = new DeviceTensor("x", [ROWS, COLUMNS]);
  const result = build(graph.use(x));
  const y = new DeviceTensor("y", result.shape);
  copyTo(result, y);
  return { graph, x, y };
}

for (const [name, { build, copies }] of Object.entries(JOINS)) {
  Deno.test(`elideJoins() leaves ${copies} copies: ${name}`, () => {
    const { graph } = traced(build, BASELINE_TARGET);
    elideJoins(graph);
    const left = graph.dispatches.filter(({ kernel }) => kernel.name.startsWith("layout/"));
    assert.equal(left.length, copies);
  });
}

Deno.test("elideJoins() changes no bit of a result", async () => {
  const device = await openTestDevice({ schedule: "gpu" }, "usual");
  const run = async (build: (x: Tensor) => Tensor, isElided: boolean) => {
    const { graph, x, y } = traced(build, device.target);
    if (isElided) elideJoins(graph);
    for (const tensor of [x, y]) tensor.allocate(device);
    x.write(Float32Array.from({ length: ROWS * COLUMNS }, (_, i) => Math.sin(i)));
    const programs = await instantiate(planMemory({ main: graph }), device);
    try {
      programs.get("main").submit();
      return await y.readFloat32();
    } finally {
      programs.destroy();
      for (const tensor of [x, y]) tensor.destroy();
    }
  };
  try {
    for (const [name, { build }] of Object.entries(JOINS)) {
      assert.deepEqual(await run(build, true), await run(build, false), name);
    }
  } finally {
    device.destroy();
  }
});
