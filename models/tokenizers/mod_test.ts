import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { withFolder } from "../../tests/support/safetensors.ts";
import { tokenizerGoldens } from "../../tests/support/tokenizer_goldens.ts";
import { loadTokenizer } from "./mod.ts";

const root = fileURLToPath(tokenizerGoldens());

Deno.test("loadTokenizer() reads tokenizer.json with its configuration", async () => {
  const tokenizer = await loadTokenizer(join(root, "t5"));
  assert.equal(tokenizer.padId, 0);
  assert.equal(tokenizer.eosId, 1);
  assert.equal(tokenizer.vocabSize, 760);
  assert.deepEqual(tokenizer.encode("<extra_id_0>"), [759, 1]);
});

Deno.test("loadTokenizer() falls back to the SentencePiece model and gives the same ids", async () => {
  await withFolder({}, async (folder) => {
    for (const name of ["spiece.model", "tokenizer_config.json"]) {
      await Deno.copyFile(join(root, "t5", name), join(folder, name));
    }
    const fallback = await loadTokenizer(folder);
    const tokenizer = await loadTokenizer(join(root, "t5"));
    assert.equal(fallback.vocabSize, tokenizer.vocabSize);
    for (const text of ["a red cat", "一只红色的猫 ﬁ ½", "a </s> b <extra_id_3>.", ""]) {
      assert.deepEqual(fallback.encode(text), tokenizer.encode(text), text);
    }
  });
});

Deno.test("loadTokenizer() says which files it looked for", async () => {
  await withFolder({}, async (folder) => {
    await assert.rejects(
      loadTokenizer(folder),
      /none of tokenizer\.json, vocab\.json with merges\.txt, spiece/,
    );
  });
});

Deno.test("loadTokenizer() names a file that is not JSON", async () => {
  await withFolder({}, async (folder) => {
    await Deno.writeTextFile(join(folder, "tokenizer.json"), "version https://git-lfs");
    await assert.rejects(loadTokenizer(folder), /tokenizer\.json: .* run git lfs pull/);
  });
});
