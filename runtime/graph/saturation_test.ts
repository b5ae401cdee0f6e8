/** Factors beyond f16, on emulated matrix units and in f16 tiles. */
import assert from "node:assert/strict";
import { withMatrixUnits } from "../../tests/support/emulated_matrix_units.ts";
import type { Device } from "../device/device.ts";
import { instantiate } from "../program/executable.ts";
import { Graph } from "./graph.ts";
import { openDevice } from "../open_device.ts";
import { copyTo } from "../ops/copy/mod.ts";
import { linear } from "../ops/linear/mod.ts";
import { linearClass } from "../ops/problem_class.ts";
import { planMemory } from "../program/plan.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import { Saturation } from "./saturation.ts";

const SIDE = 32;
/** More rows than half a tile of f16 has. */
const ROWS = 80;
/** More columns than any kernel for few columns takes. */
const COLUMNS = 160;

/** Multiplies x by a weight whose first rows are half of the unit matrix; gives the result and what was counted. */
async function halve(
  device: Device,
  x: Float32Array,
  saturation = new Saturation(),
  weight = (i: number) => i % (SIDE + 1) ? 0 : 0.5,
) {
  const tensors = {
    x: new DeviceTensor("x", [ROWS, SIDE]),
    w: new DeviceTensor("layers.3.w2", [COLUMNS, SIDE], "f16"),
    y: new DeviceTensor("y", [ROWS, COLUMNS]),
  };
  const graph = new Graph("test", device.target, saturation);
  copyTo(linear(graph.use(tensors.x), graph.use(tensors.w)), tensors.y);
  const all = [...Object.values(tensors), saturation.counters];
  for (const tensor of all) tensor.allocate(device);
  tensors.x.write(x);
  tensors.w.write(
    Float32Array.from({ length: COLUMNS * SIDE }, (_, i) => weight(i)),
  );
  const programs = await instantiate(planMemory({ main: graph }), device);
  try {
    programs.get("main").submit();
    const y = await tensors.y.readFloat32();
    const counts = Uint32Array.from(await saturation.counters.read());
    return { y, layers: saturation.layersOf(counts), isRounded: graph.isCounting };
  } finally {
    programs.destroy();
    for (const tensor of all) tensor.destroy();
  }
}

/** A choice of f16 tiles, as a tuning run may make it. */
const HALF_TILES = {
  linear: {
    [linearClass({ rows: ROWS, columns: COLUMNS, weight: "f16" })]: [
      { variant: "half128x64", microseconds: 1 },
    ],
  },
};

for (const kernels of ["matrix units", "f16 tiles"] as const) {
  const title =
    `Saturation counts factors that f16 does not hold, NaN and Inf too, for the layer that has them: ${kernels}`;
  Deno.test(title, async (t) => {
    const device = await openDevice({
      gpu: kernels === "matrix units" ? withMatrixUnits(navigator.gpu) : navigator.gpu,
      schedule: "gpu",
      forceFallbackAdapter: true,
      operands: kernels === "matrix units" ? "f16" : "int8",
    });
    if (kernels === "f16 tiles") device.applyTuning({ choices: HALF_TILES });
    const rowsWith = (value: number) => new Float32Array(ROWS * SIDE).fill(value, 5, 6);
    try {
      for (const value of [0, 1, -65504, 65519, 65520, -1e6, Infinity, NaN]) {
        await t.step(`${value}`, async () => {
          const { y, layers, isRounded } = await halve(device, rowsWith(value));
          assert.equal(isRounded, true);
          const isHeld = Math.abs(value) < 65520;
          assert.deepEqual(layers, isHeld ? [] : ["layers.3.w2"]);
          if (isHeld) assert.equal(y[5], Math.min(65504, value) / 2);
        });
      }
      await t.step("a wide layer is computed with f32", async () => {
        const saturation = new Saturation(new Set(["layers.3.w2"]));
        const { y, layers, isRounded } = await halve(device, rowsWith(-1e6), saturation);
        assert.deepEqual([y[5], layers, isRounded], [-5e5, [], false]);
      });
      if (kernels === "f16 tiles") {
        await t.step("so does a sum of factors that f16 holds", async () => {
          const x = new Float32Array(ROWS * SIDE).fill(30_000, 0, SIDE);
          const { layers } = await halve(device, x, new Saturation(), () => 0.5);
          assert.deepEqual(layers, ["layers.3.w2"]);
        });
      }
    } finally {
      device.destroy();
    }
  });
}
