import { strict as assert } from "node:assert";
import { basename } from "node:path";
import { TemporaryInputs } from "./temporary_inputs.ts";

Deno.test("TemporaryInputs removes what killed servers left, and nothing of those that live", async () => {
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
});

Deno.test("TemporaryInputs does without a folder that can be written to", async () => {
  const inputs = new TemporaryInputs("/dev/null");
  await inputs.removeDead();
  await assert.doesNotReject(inputs.remove());
});
