import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { clipTokenizer } from "./clip_vocabulary.ts";
import { loadTokenizer } from "./mod.ts";

const folder = fileURLToPath(new URL("../../tests/goldens/tokenizers/clip", import.meta.url));
const golden: readonly [text: string, ids: number[]][] = JSON.parse(
  Deno.readTextFileSync(join(folder, "ids.json")),
);

for (
  const names of [
    ["tokenizer.json", "tokenizer_config.json"],
    ["vocab.json", "merges.txt", "tokenizer_config.json"],
  ]
) {
  Deno.test(`loadTokenizer() gives the ids of transformers for CLIP's BPE, from ${names.join(", ")}`, async () => {
    const copy = await Deno.makeTempDir();
    try {
      for (const name of names) await Deno.copyFile(join(folder, name), join(copy, name));
      const tokenizer = await loadTokenizer(copy);
      for (const [text, ids] of golden) assert.deepEqual(tokenizer.encode(text), ids, text);
      const long = tokenizer.encode("a red cat ".repeat(40), { maxLength: 77 });
      assert.equal(long.length, 77);
      assert.equal(long.at(-1), tokenizer.eosId);
      assert.equal(tokenizer.padId, tokenizer.eosId);
    } finally {
      await Deno.remove(copy, { recursive: true });
    }
  });
}

Deno.test("clipTokenizer() gives the ids of transformers for CLIP's own vocabulary, and both kinds of padding", async () => {
  const path = fileURLToPath(
    new URL("../../tests/goldens/tokenizers/clip_ids.json", import.meta.url),
  );
  const known: typeof golden = JSON.parse(Deno.readTextFileSync(path));
  const tokenizer = await clipTokenizer("end");
  for (const [text, ids] of known) assert.deepEqual(tokenizer.encode(text), ids, text);
  assert.deepEqual([tokenizer.vocabSize, tokenizer.eosId, tokenizer.padId], [49408, 49407, 49407]);
  assert.equal((await clipTokenizer("zero")).padId, 0);
});
