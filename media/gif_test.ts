import assert from "node:assert/strict";
import goldens from "../tests/goldens/media/images.json" with { type: "json" };
import { gif } from "../tests/support/hostile_images.ts";
import { decodeImage } from "./decode.ts";
import { scanGif } from "./gif.ts";
import { ImageError } from "./image.ts";

Deno.test("scanGif() gives the size of the screen", () => {
  for (const { name, file, width, height } of goldens.cases) {
    if (!name.startsWith("gif")) continue;
    const screen = scanGif(Uint8Array.fromBase64(file));
    assert.deepEqual([screen.width, screen.height], [width, height], name);
  }
});

Deno.test("decodeImage() refuses a GIF whose frame is larger than its screen, undecoded", async () => {
  for (const file of [gif([1, 1], [40_000, 40_000]), gif([1, 1], [3, 2], true)]) {
    await assert.rejects(decodeImage(file), (error) => {
      assert.ok(error instanceof ImageError);
      assert.match(error.message, /a frame of \d+x\d+ at \(0, 0\) does not lie on its 1x1 screen$/);
      return true;
    });
  }
  const { width, height, data } = await decodeImage(gif([300, 200], [300, 200], true));
  assert.deepEqual([width, height], [300, 200]);
  assert.ok(data.every((sample) => sample === 0));
});

Deno.test("scanGif() looks at every frame, behind extensions and palettes", () => {
  const one = gif([4, 4], [4, 4], true);
  const body = one.subarray(19, -1);
  const extension = [0x21, 0xfe, 3, 0x2c, 0x3b, 0, 2, 9, 9, 0];
  const second = body.slice();
  // At (1, 0) it ends beyond the right edge.
  second[1] = 1;
  const file = Uint8Array.from([...one.subarray(0, -1), ...extension, ...second, 0x3b]);
  assert.throws(() => scanGif(file), /a frame of 4x4 at \(1, 0\) does not lie on its 4x4 screen/);
  // A palette of its own: two colours.
  const own = Uint8Array.from([
    ...one.subarray(0, 28),
    0x80,
    ...new Array(6).fill(0),
    ...one.subarray(29, -1),
    ...second,
  ]);
  assert.throws(() => scanGif(own), /at \(1, 0\)/);
  for (const empty of [one.subarray(0, 19), one.subarray(0, 12)]) {
    assert.throws(() => scanGif(empty), ImageError);
  }
});
