import { strict as assert } from "node:assert";
import { join } from "node:path";
import { InputFolder } from "./input_folder.ts";

Deno.test("InputFolder says why it cannot be made, and is removed without an error then", async () => {
  const root = await Deno.makeTempFile();
  try {
    const folder = new InputFolder(join(root, "inputs"), "img_a");
    await assert.rejects(folder.write("a.png", Uint8Array.of(1)), {
      message:
        "Cannot keep the result on the server: a part of its path is a file; choose another folder",
    });
    await assert.doesNotReject(folder.remove());
  } finally {
    await Deno.remove(root);
  }
});
