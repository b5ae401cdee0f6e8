/** Reads and writes halves in every form, on an adapter for which naga refuses the functions that do so. */
import assert from "node:assert/strict";
import { openDevice } from "../../runtime/mod.ts";
import { type OpCase, runCase } from "../../runtime/conformance.ts";
import { GATHER_SUITE } from "../../runtime/ops/gather/cases.ts";
import { gather } from "../../runtime/ops/gather/mod.ts";
import { ndarray } from "../../runtime/ops/ndarray.ts";

const device = await openDevice();
assert.equal(device.target.dialect, "naga-f32");

const halves = new Float16Array(Uint16Array.from({ length: 65_536 }, (_, bits) => bits).buffer);
const finite = Float64Array.from(halves).filter((value) => Number.isFinite(value));
const rows = finite.length / 4;
const everyHalf: OpCase = {
  name: "every half",
  inputs: {
    table: { values: ndarray([rows, 4], finite), dtype: "f16" },
    indices: {
      values: ndarray([rows], Float64Array.from({ length: rows }, (_, i) => i)),
      dtype: "u32",
    },
  },
  build: ({ table, indices }) => [gather(table!, indices!)],
  reference: ({ table }) => [table!],
  tolerance: 0,
};
await runCase(device, everyHalf);
await runCase(device, { ...everyHalf, name: "every half, stored as f16" }, device.target, 1, "f16");
for (const testCase of GATHER_SUITE.cases) await runCase(device, testCase);
console.log(`${GATHER_SUITE.cases.length + 2} cases`);
