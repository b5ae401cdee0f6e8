import { strict as assert } from "node:assert";
import { noise } from "../tests/support/pixels.ts";
import { contactSheet } from "./contact_sheet.ts";
import { crop } from "./image.ts";

Deno.test("contactSheet() tiles row by row with gaps around", () => {
  const images = [noise(4, 3), noise(4, 3), noise(2, 1)];
  const sheet = contactSheet(images, { columns: 2, gap: 5, background: [1, 2, 3] });
  assert.deepEqual([sheet.width, sheet.height], [2 * 4 + 3 * 5, 2 * 3 + 3 * 5]);
  assert.deepEqual(crop(sheet, 5, 5, 4, 3).data, images[0]!.data);
  assert.deepEqual(crop(sheet, 14, 5, 4, 3).data, images[1]!.data);
  assert.deepEqual(crop(sheet, 6, 14, 2, 1).data, images[2]!.data);
  const covered = 4 * 3 + 4 * 3 + 2;
  let plain = 0;
  for (let i = 0; i < sheet.data.length; i += 3) {
    if (sheet.data[i] === 1 && sheet.data[i + 1] === 2 && sheet.data[i + 2] === 3) plain++;
  }
  assert.equal(plain, sheet.width * sheet.height - covered);
});

Deno.test("contactSheet() chooses a square and never more columns than images", () => {
  const four = contactSheet(Array.from({ length: 4 }, () => noise(10, 10)), { gap: 0 });
  assert.deepEqual([four.width, four.height], [20, 20]);
  const one = contactSheet([noise(10, 10)], { columns: 8, gap: 1 });
  assert.deepEqual([one.width, one.height], [12, 12]);
});

Deno.test("contactSheet() refuses nothing, no columns and negative gaps", () => {
  assert.throws(() => contactSheet([]), /there are no images$/);
  assert.throws(() => contactSheet([noise(1, 1)], { columns: 0 }), /0 columns/);
  assert.throws(() => contactSheet([noise(1, 1)], { gap: -1 }), /-1 pixels/);
});
