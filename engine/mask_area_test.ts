import assert from "node:assert/strict";
import type { PipelineRequest } from "../models/mod.ts";
import { maskArea, placed } from "./mask_area.ts";
import { shrinkRequest } from "./result_size.ts";

type Numbers = readonly number[];

/** White within a box, both of whose corners belong to it. */
function boxed([width, height]: Numbers, [left, top, right, bottom]: Numbers): Uint8Array {
  return Uint8Array.from({ length: width! * height! }, (_, i) => {
    const [x, y] = [i % width!, Math.floor(i / width!)];
    return x >= left! && x <= right! && y >= top! && y <= bottom! ? 255 : 0;
  });
}

const sides = ([width, height]: Numbers) => ({ width: width!, height: height! });

/** Areas of diffusers' `get_crop_region`: image, box of the mask, size, padding. */
const CASES: readonly (readonly [Numbers, Numbers, Numbers, number, area: Numbers])[] = [
  [[64, 48], [10, 12, 19, 17], [32, 32], 0, [10, 10, 10, 10]],
  [[64, 48], [10, 12, 19, 17], [32, 32], 4, [6, 6, 18, 18]],
  [[64, 48], [0, 0, 4, 30], [64, 16], 8, [0, 0, 64, 39]],
  [[64, 48], [50, 40, 63, 47], [32, 16], 2, [44, 38, 20, 10]],
  [[48, 64], [5, 5, 40, 9], [32, 48], 3, [2, 0, 42, 63]],
  [[40, 40], [3, 3, 36, 8], [16, 64], 1, [2, 0, 36, 40]],
];

Deno.test("maskArea() gives the reference's boxes", () => {
  for (const [image, box, size, padding, [left, top, width, height]] of CASES) {
    assert.deepEqual(
      maskArea(boxed(image, box), sides(image), sides(size), padding),
      { left, top, width, height },
    );
  }
});

Deno.test("shrinkRequest() cuts image and mask to an area, and placed() puts it back", () => {
  const [width, height] = [12, 8];
  const data = Uint8Array.from({ length: width * height * 3 }, (_, i) => i % 251);
  const mask = boxed([width, height], [4, 3, 7, 5]);
  const request = { width, height, mask: [mask], images: [{ width, height, data }] };
  const area = { left: 3, top: 2, width: 6, height: 5 };
  const cut = shrinkRequest(
    request as unknown as PipelineRequest,
    { width: 6, height: 5 },
    {},
    area,
  );
  assert.deepEqual([cut.width, cut.height, cut.images![0]!.width], [6, 5, 6]);
  assert.deepEqual(cut.mask![0], boxed([6, 5], [1, 1, 4, 3]));
  const inverse = cut.images![0]!.data.map((byte) => 255 - byte);
  const whole = placed(inverse, area, request as unknown as PipelineRequest);
  const inside = boxed([width, height], [3, 2, 8, 6]);
  assert.deepEqual(
    whole,
    data.map((byte, i) => inside[Math.floor(i / 3)] ? 255 - byte : byte),
  );
});
