import { basename, join } from "node:path";
import { InputFolder, sanitizeFileName, TemporaryInputs } from "./input_folder.ts";
import { strict as assert } from "node:assert";
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

Deno.test({
  name: "TemporaryInputs removes what killed servers left, and nothing of those that live",
  // Wine keeps folders whose lock is still open.
  ignore: Deno.build.os === "windows",
  fn: testTemporaryInputs,
});

async function testTemporaryInputs() {
  const root = await Deno.makeTempDir();
  const names = () => [...Deno.readDirSync(root)].map(({ name }) => name).sort();
  try {
    const living = new TemporaryInputs(root);
    const [dead, unlocked] = [crypto.randomUUID(), crypto.randomUUID()];
    for (const name of [`denoise-inputs-${dead}`, `denoise-inputs-${unlocked}`, "holiday"]) {
      await Deno.mkdir(`${root}/${name}/img_a`, { recursive: true });
    }
    await Deno.writeTextFile(`${root}/denoise-inputs-${dead}/.server.lock`, "");
    await Deno.writeTextFile(`${root}/denoise-inputs-${crypto.randomUUID()}`, "a file");
    const before = names();
    const next = new TemporaryInputs(root);
    await next.removeDead();
    await next.remove();
    assert.deepEqual(names(), before.filter((name) => !name.endsWith(dead)));
    await living.remove();
    assert.ok(!names().includes(basename(living.path)));
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

Deno.test("TemporaryInputs does without a folder that can be written to", async () => {
  const inputs = new TemporaryInputs("/dev/null");
  await inputs.removeDead();
  await assert.doesNotReject(inputs.remove());
});
