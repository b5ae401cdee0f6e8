import { strict as assert } from "node:assert";
import { join } from "node:path";
import { LocalStorage } from "./local.ts";

Deno.test("LocalStorage.write() makes the folder, leaves one file, and tells what it is", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const storage = new LocalStorage(join(folder, "a/b"));
    const bytes = Uint8Array.of(1, 2, 3);
    const file = await storage.write("x_0.png", bytes, "image/png");
    assert.deepEqual(file, {
      name: "x_0.png",
      contentType: "image/png",
      size: 3,
      // The first half of SHA-256 of the bytes 1, 2, 3.
      etag: '"039058c6f2c0cb492c533b0a4d14ef77"',
    });
    assert.deepEqual(await Deno.readFile(storage.path("x_0.png")), bytes);
    await storage.write("x_0.png", Uint8Array.of(4), "image/png");
    assert.deepEqual(await Deno.readFile(storage.path("x_0.png")), Uint8Array.of(4));
    assert.equal([...Deno.readDirSync(storage.root)].length, 1, "no temporary file stays");
    await storage.remove({ name: "x_0.png" });
    await storage.remove({ name: "x_0.png" });
    assert.equal([...Deno.readDirSync(storage.root)].length, 0);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("LocalStorage.write() leaves nothing behind when it fails", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const storage = new LocalStorage(folder);
    await Deno.mkdir(join(folder, "taken.png"));
    await assert.rejects(storage.write("taken.png", Uint8Array.of(1), "image/png"));
    assert.deepEqual([...Deno.readDirSync(folder)].map(({ name }) => name), ["taken.png"]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("LocalStorage.path() refuses names that lead elsewhere", () => {
  const storage = new LocalStorage("results");
  for (const name of ["", ".", "..", "../a", "a/b", "a\\b", "/a", ".hidden", "a\0"]) {
    assert.throws(() => storage.path(name), RangeError, JSON.stringify(name));
  }
});

Deno.test("LocalStorage.writeFrom() says that the disk is full, whoever found it full", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const storage = new LocalStorage(folder);
    const full = new Error("FFmpeg failed: Could not write header: No space left on device");
    const writing = storage.writeFrom("a.mp4", "video/mp4", () => Promise.reject(full));
    await assert.rejects(writing, {
      failure: "storage_failed",
      message: /no space is left on the disk/,
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("LocalStorage takes a file for gone whose folder is no folder any more", async () => {
  const root = await Deno.makeTempFile();
  try {
    const storage = new LocalStorage(root);
    const file = { name: "x_0.png", contentType: "image/png", size: 3, etag: '"0"' };
    const request = new Request("http://localhost/");
    assert.equal(await storage.content(request, file), undefined);
    await assert.doesNotReject(storage.remove(file));
    await assert.rejects(storage.write("a.png", Uint8Array.of(1), "image/png"), {
      message:
        "Cannot keep the result on the server: a part of its path is a file; choose another folder",
    });
  } finally {
    await Deno.remove(root);
  }
});
