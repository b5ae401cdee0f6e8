import { strict as assert } from "node:assert";
import { TileBlender, tileSides, tilesOf } from "./tiling.ts";

Deno.test("tilesOf() covers an image with overlapping tiles, none of them within the one before", () => {
  for (const [height, width, side] of [[1, 1, 4], [64, 64, 64], [65, 200, 64], [22, 42, 16]]) {
    const tiles = tilesOf(height!, width!, side!);
    const covered = new Set<number>();
    for (const { rows, columns } of tiles) {
      assert.ok(rows.size <= side! && columns.size <= side!);
      for (let y = 0; y < rows.size; y++) {
        for (let x = 0; x < columns.size; x++) {
          covered.add((rows.start + y) * width! + columns.start + x);
        }
      }
    }
    assert.equal(covered.size, height! * width!);
    const starts = tiles.filter(({ row }) => row === 0).map(({ columns }) => columns);
    for (const [i, { start, size }] of starts.entries()) {
      const before = starts[i - 1];
      assert.ok(!before || start + size > before.start + before.size, `${start} of ${width}`);
    }
  }
});

Deno.test("TileBlender gives back what equal tiles were cut from, and goes over in straight lines elsewhere", () => {
  const [height, width, side] = [10, 22, 8];
  const value = (y: number, x: number) => y * 100 + x;
  const blend = (offset: (column: number) => number) => {
    const blender = new TileBlender([height, width, 1], side);
    for (const tile of tilesOf(height, width, side)) {
      const { rows, columns } = tile;
      const data = new Float32Array(rows.size * columns.size).map((_, i) =>
        value(rows.start + Math.floor(i / columns.size), columns.start + i % columns.size) +
        offset(tile.column)
      );
      blender.add(tile, [rows.size, columns.size], data);
    }
    return blender.result;
  };
  const whole = Float32Array.from(
    { length: height * width },
    (_, i) => value(Math.floor(i / width), i % width),
  );
  assert.deepEqual(blend(() => 0), whole);
  const row = blend((column) => column).subarray(9 * width, 10 * width);
  const seam = Array.from({ length: 5 }, (_, i) => row[5 + i]! - value(9, 5 + i));
  // Columns 6 and 7 belong to both of the first two tiles.
  assert.deepEqual(seam, [0, 0, 0.5, 1, 1]);
});

Deno.test("tileSides() offers the whole first, then ever smaller tiles", () => {
  assert.deepEqual(tileSides(160, 96), [160, 128, 64, 32]);
  assert.deepEqual(tileSides(64, 128), [128, 64, 32]);
  assert.deepEqual(tileSides(8, 16), [16]);
});
