import assert from "node:assert/strict";
import { nearestShape } from "../../pipeline/shapes.ts";
import { videoSizes } from "./sizes.ts";

Deno.test("videoSizes() and nearestShape() give the sizes that diffusers makes of shapes", () => {
  const size = (height: number, width: number, side: number) => {
    const found = nearestShape({ width, height }, videoSizes(side, 16));
    return [found.height, found.width];
  };
  assert.deepEqual([96, 640, 960].map((side) => size(9, 16, side)), [[64, 112], [480, 848], [
    720,
    1280,
  ]]);
  const shapes: readonly (readonly [readonly [number, number], readonly number[]])[] = [
    ...[[[480, 640], [544, 720]], [[1000, 1000], [640, 640]], [[90, 40], [944, 432]]] as const,
    ...[[[100, 900], [320, 1280]], [[900, 100], [1280, 320]]] as const,
  ];
  for (const [shape, expected] of shapes) assert.deepEqual(size(...shape, 640), expected);
});
