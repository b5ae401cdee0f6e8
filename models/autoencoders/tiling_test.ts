import { strict as assert } from "node:assert";
import { addTile, scaleTile, seamShares, tilePositions, tileSides, tilesOf } from "./tiling.ts";

Deno.test("tilesOf() covers a whole with as few tiles as there can be, all of one size, whose shares add up to one", () => {
  for (let side = 4; side <= 64; side += side < 12 ? 1 : 13) {
    for (let width = 1; width <= 200; width += width < 40 ? 1 : 9) {
      const tiles = tilesOf(3, width, side);
      const sums = new Float64Array(width);
      for (const { rows, columns } of tiles) {
        assert.ok(columns.size <= side && columns.size === tiles[0]!.columns.size);
        assert.deepEqual(rows, { start: 0, size: 3, before: 0, after: 0 });
        seamShares(columns).forEach((share, i) => sums[columns.start + i]! += share);
      }
      for (const sum of sums) assert.ok(Math.abs(sum - 1) < 1e-12, `${sum}: ${width} by ${side}`);
      const overlap = Math.floor(side / 4);
      assert.ok(tiles.length === 1 || width > (tiles.length - 1) * (side - overlap) + overlap);
      for (const { columns } of tiles.slice(1)) assert.ok(columns.before >= overlap);
    }
  }
});

Deno.test("addTile() gives back what equal tiles were cut from, and goes over in straight lines elsewhere", () => {
  const [height, width, scale] = [10, 22, 2];
  const value = (y: number, x: number) => y * 100 + x;
  const join = (offset: (tile: number) => number) => {
    const whole = {
      data: new Float32Array(height * scale * width * scale),
      width: width * scale,
    };
    for (const [i, tile] of tilesOf(height, width, 8).entries()) {
      const scaled = scaleTile(tile, scale);
      const positions = tilePositions(scaled, whole.width);
      const values = Float32Array.from(
        positions,
        (position) => value(Math.floor(position / whole.width), position % whole.width) + offset(i),
      );
      addTile(whole, scaled, values);
    }
    return whole.data;
  };
  const expected = Float32Array.from(
    { length: height * scale * width * scale },
    (_, i) => value(Math.floor(i / (width * scale)), i % (width * scale)),
  );
  join(() => 0).forEach((own, i) => assert.ok(Math.abs(own - expected[i]!) < 1e-3));
  // Columns of 7 at 0, 5, 10 and 15: the first two share 2 latents, which are 4 pixels.
  const line = join((i) => i).subarray(0, width * scale);
  const seam = Array.from({ length: 6 }, (_, i) => line[9 + i]! - value(0, 9 + i));
  assert.deepEqual(seam, [0, 0.125, 0.375, 0.625, 0.875, 1]);
});

Deno.test("tileSides() offers the whole first, then ever smaller tiles", () => {
  assert.deepEqual(tileSides(160), [160, 128, 64, 32]);
  assert.deepEqual(tileSides(128), [128, 64, 32]);
  assert.deepEqual(tileSides(80, 16), [80, 64, 32, 16]);
  assert.deepEqual(tileSides(16), [16]);
});
