import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
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
