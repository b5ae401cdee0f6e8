import { strict as assert } from "node:assert";
import { leadsTo, linkFile, patiently } from "./links.ts";

Deno.test("linkFile() lets a path lead to a file, and leadsTo() finds that it does", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const [file, path] = [`${folder}/blobs/a`, `${folder}/snapshots/x/a`];
    await Deno.mkdir(`${folder}/blobs`);
    await Deno.mkdir(`${folder}/snapshots/x`, { recursive: true });
    await Deno.writeTextFile(file, "text");
    assert.equal(await leadsTo(path, file), false);
    await linkFile(file, path);
    assert.equal(await Deno.readTextFile(path), "text");
    assert.equal(await leadsTo(path, file), true);
    await Deno.remove(path);
    await Deno.copyFile(file, path);
    assert.equal(await leadsTo(path, file), true, "a copy");
    await Deno.writeTextFile(path, "others");
    assert.equal(await leadsTo(path, file), false);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("patiently() tries again what Windows holds, and nothing else", async () => {
  const held = Object.assign(new Error("held"), { code: "EBUSY" });
  for (const [os, calls] of [["win32", 3], ["linux", 1]] as const) {
    let count = 0;
    const work = () => ++count < 3 ? Promise.reject(held) : Promise.resolve(count);
    await patiently(work, os).catch((error) => assert.equal(error, held));
    assert.equal(count, calls, os);
  }
  await assert.rejects(patiently(() => Promise.reject(new Error("gone")), "win32"), /gone/);
});
