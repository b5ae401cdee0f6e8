import assert from "node:assert/strict";
import { assertClose, Golden } from "../../tests/support/golden.ts";
import { rotaryTables, timestepEmbedding } from "./embeddings.ts";

Deno.test("timestepEmbedding() puts cosines before sines, frequencies falling from 1 to 1/10000", () => {
  const table = timestepEmbedding([0, 2], 8);
  assert.deepEqual([...table.subarray(0, 8)], [1, 1, 1, 1, 0, 0, 0, 0]);
  [1, 0.1, 0.01, 0.001].forEach((frequency, i) => {
    assert.ok(Math.abs(table[8 + i]! - Math.cos(2 * frequency)) < 1e-6);
    assert.ok(Math.abs(table[12 + i]! - Math.sin(2 * frequency)) < 1e-6);
  });
});

Deno.test("timestepEmbedding() equals the reference at fractional timesteps", () => {
  const golden = new Golden("wan/transformer-tiny");
  const timesteps = golden.tensor("video_batch", "timestep");
  const expected = golden.tensor("video_batch", "time_features");
  const data = timestepEmbedding(Array.from(timesteps.data), expected.shape[1]!);
  // An angle of 812 has steps of 6e-5 in single precision.
  assertClose("time_features", { shape: expected.shape, data }, expected, 1e-4);
});

Deno.test("rotaryTables() equals the reference on a grid of frames, rows and columns", () => {
  for (
    const [name, axisDims] of [["tiny", [4, 4, 4]], ["hd32", [12, 10, 10]], ["hd128", [
      44,
      42,
      42,
    ]]] as const
  ) {
    const golden = new Golden(`wan/transformer-${name}`);
    const positions: number[][] = [];
    for (let t = 0; t < 3; t++) {
      for (let y = 0; y < 3; y++) {
        for (let x = 0; x < 5; x++) positions.push([t, y, x]);
      }
    }
    const tables = rotaryTables(positions, axisDims, 10000);
    for (const part of ["cos", "sin"] as const) {
      const expected = golden.tensor("video_batch", `rope_${part}`);
      // The reference repeats every value for both elements of a pair.
      const data = Float32Array.from(
        { length: expected.data.length },
        (_, i) => tables[part][i >> 1]!,
      );
      assertClose(`${name} ${part}`, { shape: expected.shape, data }, expected, 1e-7);
    }
  }
});

Deno.test("rotaryTables() turns a replaced pair by its own frequency, and others as before", () => {
  const replaced = { axis: 0, pair: 1, frequency: 0.25 };
  const { sin } = rotaryTables([[3, 2]], [4, 2], 100, replaced);
  const expected = [Math.sin(3), Math.sin(0.75), Math.sin(2)].map(Math.fround);
  assert.deepEqual([...sin], expected);
});

Deno.test("rotaryTables() leaves position 0 unturned and gives every axis its own pairs", () => {
  const { cos, sin } = rotaryTables([[0, 0], [1, 0], [0, 1]], [4, 2], 100);
  assert.deepEqual([...cos.subarray(0, 3)], [1, 1, 1]);
  assert.deepEqual([...sin.subarray(0, 3)], [0, 0, 0]);
  assert.deepEqual([...sin.subarray(3, 6)], [
    Math.fround(Math.sin(1)),
    Math.fround(Math.sin(0.1)),
    0,
  ]);
  assert.deepEqual([...sin.subarray(6, 9)], [0, 0, Math.fround(Math.sin(1))]);
});
