import { join } from "node:path";
import { InputFolder, sanitizeFileName } from "./input_folder.ts";
import assert from "node:assert/strict";
import fc from "fast-check";

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

Deno.test("sanitizeFileName() keeps plain names and disarms the rest", () => {
  const cases = [
    ["cat.png", "cat.png"],
    ["../../etc/passwd", "passwd"],
    ["C:\\Windows\\win.ini", "win.ini"],
    [".bashrc", "bashrc"],
    ["a b\u0000c.jpg", "a_b_c.jpg"],
    ["Größe.png", "Gro_e.png"],
    ["…", "upload"],
    ["", "upload"],
  ] as const;
  for (const [name, expected] of cases) assert.equal(sanitizeFileName(name), expected, name);
});

Deno.test("sanitizeFileName() gives a safe name for any text", () => {
  fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 300 }), (name) => {
    assert.match(sanitizeFileName(name), /^[A-Za-z0-9](?:[\w.-]{0,98}[A-Za-z0-9])?$/);
  }));
});

Deno.test("sanitizeFileName() takes no longer for a long name than for a short one", () => {
  const start = performance.now();
  sanitizeFileName("a\u0323\u0307".repeat(10) + "\u0323\u0307".repeat(50_000) + ".png");
  assert.ok(performance.now() - start < 200);
  assert.equal(sanitizeFileName(`${"a/".repeat(5000)}x.png`), "x.png");
});
