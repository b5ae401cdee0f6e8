import { strict as assert } from "node:assert";
import { crop } from "../media/image.ts";
import { noise } from "../tests/support/pixels.ts";
import { contactSheet } from "./contact_sheet.ts";

Deno.test("contactSheet() tiles row by row with gaps around", () => {
  const images = [noise(4, 3), noise(4, 3), noise(2, 1)];
  const sheet = contactSheet(images, 2, 5);
  assert.deepEqual([sheet.width, sheet.height], [2 * 4 + 3 * 5, 2 * 3 + 3 * 5]);
  assert.deepEqual(crop(sheet, 5, 5, 4, 3).data, images[0]!.data);
  assert.deepEqual(crop(sheet, 14, 5, 4, 3).data, images[1]!.data);
  assert.deepEqual(crop(sheet, 6, 14, 2, 1).data, images[2]!.data);
  assert.ok(crop(sheet, 0, 0, sheet.width, 5).data.every((sample) => sample === 255));
});

Deno.test("contactSheet() has no more columns than images", () => {
  const one = contactSheet([noise(10, 10)], 8, 1);
  assert.deepEqual([one.width, one.height], [12, 12]);
});
