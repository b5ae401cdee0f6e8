import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { byteTokenizer, loadTokenizer } from "./mod.ts";

const folder = fileURLToPath(
  new URL("../../tests/goldens/hunyuan_video_15/pipeline/tokenizer_2", import.meta.url),
);

Deno.test("loadTokenizer() gives the ids of transformers for ByT5's bytes, and cuts a text before its end token", async () => {
  const golden: readonly [text: string, ids: number[]][] = JSON.parse(
    Deno.readTextFileSync(join(folder, "ids.json")),
  );
  const tokenizer = await loadTokenizer(folder);
  for (const [text, ids] of golden) assert.deepEqual(tokenizer.encode(text), ids, text);
  assert.equal(tokenizer.vocabSize, 386);
  const rest: number[] = [];
  const ids = tokenizer.encode("abcdef", { maxLength: 4, onCut: (cut) => void rest.push(...cut) });
  assert.deepEqual([ids.length, ids.at(-1), tokenizer.decode(rest)], [4, 1, "def"]);
});

Deno.test("byteTokenizer() has the tokens of ByT5 where a file lists none", () => {
  const tokenizer = byteTokenizer({}, "a file");
  assert.equal(tokenizer.vocabSize, 384);
  assert.deepEqual(tokenizer.encode("<extra_id_0>é"), [259, 198, 172, 1]);
});
