import assert from "node:assert/strict";
import type { PipelineRequest } from "../models/mod.ts";
import { areaInside, maskArea, placed, requestedArea } from "./mask_area.ts";
import { areaPixels, shrinkRequest } from "./result_size.ts";

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

Deno.test("requestedArea() holds what a blur adds to the mask, as far as it shows in bytes", () => {
  const [width, height] = [120, 90];
  const mask = [boxed([width, height], [50, 40, 79, 59])];
  const request = { width, height, mask, paddingMaskCrop: 3 } as unknown as PipelineRequest;
  const size = { width: 64, height: 64 };
  const areaOf = (more: Partial<PipelineRequest>) => requestedArea({ ...request, ...more }, size);
  assert.deepEqual(areaOf({}), maskArea(mask[0]!, request, size, 3));
  // A deviation of 4 reaches 10 pixels.
  assert.deepEqual(areaOf({ maskBlur: 4 }), maskArea(mask[0]!, request, size, 13));
  assert.equal(requestedArea({ ...request, mask: undefined as never }, size), undefined);
});

Deno.test("areaPixels() gives back what shrinkRequest() took of an area of another shape, whose edges it repeats", () => {
  const [width, height] = [20, 12];
  const data = Uint8Array.from(
    { length: width * height * 3 },
    (_, i) => 10 * Math.floor(i / 3 / width),
  );
  const mask = boxed([width, height], [0, 2, 19, 9]);
  const request = { width, height, mask: [mask], images: [{ width, height, data }] };
  const area = { left: 0, top: 0, width: 20, height: 12 };
  const size = { width: 20, height: 20 };
  assert.deepEqual(areaInside(area, size), { left: 0, top: 4, width: 20, height: 12 });
  assert.deepEqual(areaInside({ ...area, width: 5 }, { width: 24, height: 12 }), {
    left: 10,
    top: 0,
    width: 5,
    height: 12,
  });
  const cut = shrinkRequest(request as unknown as PipelineRequest, size, {}, area);
  const column = Array.from({ length: 20 }, (_, y) => cut.images![0]!.data[y * 60]);
  assert.deepEqual(column, [
    0,
    0,
    0,
    0,
    ...Array.from({ length: 12 }, (_, y) => 10 * y),
    110,
    110,
    110,
    110,
  ]);
  assert.deepEqual(areaPixels(cut.images![0]!.data, size, area), data);
});
