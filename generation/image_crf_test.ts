import assert from "node:assert/strict";
import { findFfmpeg } from "../media/video/mod.ts";
import { withVideoLosses } from "./image_crf.ts";

/** Smooth, with an edge. */
const image = {
  ...{ width: 96, height: 64 },
  data: Uint8Array.from({ length: 96 * 64 * 3 }, (_, i) => {
    const [x, y] = [Math.floor(i / 3) % 96, Math.floor(i / 288)];
    return x > 60 && y > 20 ? 230 : Math.round(40 + x + 20 * Math.sin(y / 5));
  }),
};

async function lossesAt(imageCrf: number | undefined, own?: number): Promise<number> {
  const [made] = await withVideoLosses(
    [image],
    imageCrf === undefined ? {} : { imageCrf },
    own === undefined ? {} : { imageCrf: own },
    findFfmpeg,
  );
  assert.deepEqual([made!.width, made!.height, made!.data.length], [96, 64, image.data.length]);
  const sum = image.data.reduce((sum, value, i) => sum + (value - made!.data[i]!) ** 2, 0);
  return Math.sqrt(sum / image.data.length);
}

Deno.test("withVideoLosses() loses more at a higher factor, the model's where none is asked for, and nothing at 0", async () => {
  assert.equal(await lossesAt(0, 33), 0);
  assert.equal(await lossesAt(undefined), 0);
  const [few, usual, many] = [
    await lossesAt(5, 33),
    await lossesAt(undefined, 33),
    await lossesAt(50),
  ];
  assert.equal(usual, await lossesAt(33));
  assert.ok(0 < few && few < usual && usual < many, `${few}, ${usual}, ${many}`);
  assert.ok(usual < 8, `${usual}`);
});
