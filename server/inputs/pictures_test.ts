import { strict as assert } from "node:assert";
import { ApiError } from "../contract/errors.ts";
import { pictureSize } from "./pictures.ts";

Deno.test("pictureSize() refuses a file that is too long for a picture, unread", async () => {
  const path = await Deno.makeTempFile();
  try {
    await Deno.truncate(path, 64 * 2 ** 20 + 1);
    await assert.rejects(pictureSize({ field: "image", path, kind: "image" }), (error) => {
      assert.ok(error instanceof ApiError);
      assert.equal(error.status, 413);
      assert.match(error.message, /it has 67108865 bytes, and at most 67108864 are read$/);
      return true;
    });
  } finally {
    await Deno.remove(path);
  }
});
