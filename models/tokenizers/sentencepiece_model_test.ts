import assert from "node:assert/strict";
import { tokenizerGoldens } from "../../tests/support/tokenizer_goldens.ts";
import { readSentencePieceModel } from "./sentencepiece_model.ts";

const root = tokenizerGoldens();

function readJson<T>(path: string): T {
  return JSON.parse(Deno.readTextFileSync(new URL(path, root))) as T;
}

const texts = readJson<string[]>("texts.json");

for (const folder of ["t5", "umt5"]) {
  Deno.test(`readSentencePieceModel() gives the ids of SentencePiece, and its text back: ${folder}`, () => {
    interface Ids {
      readonly sentencepiece: readonly (readonly number[])[];
      readonly sentencepieceDecoded: readonly string[];
    }
    const ids = readJson<Ids>(`${folder}/ids.json`);
    const model = Deno.readFileSync(new URL(`${folder}/spiece.model`, root));
    const tokenizer = readSentencePieceModel(model, "spiece.model");
    texts.forEach((text, i) => {
      const actual = tokenizer.encode(text, { addSpecialTokens: false });
      assert.deepEqual(actual, ids.sentencepiece[i], JSON.stringify(text));
      assert.deepEqual(tokenizer.encode(text), [...actual, tokenizer.eosId]);
    });
    ids.sentencepieceDecoded.forEach((text, i) => {
      assert.deepEqual(words(tokenizer.decode(ids.sentencepiece[i]!)), words(text));
    });
  });
}

Deno.test("readSentencePieceModel() follows every option of the trainer that changes ids", () => {
  interface Variants {
    readonly texts: readonly string[];
    readonly models: Readonly<Record<string, readonly (readonly number[])[]>>;
  }
  const variants = readJson<Variants>("variants/ids.json");
  for (const [name, ids] of Object.entries(variants.models)) {
    const model = Deno.readFileSync(new URL(`variants/${name}.model`, root));
    const tokenizer = readSentencePieceModel(model, name);
    variants.texts.forEach((text, i) => {
      const actual = tokenizer.encode(text, { addSpecialTokens: false });
      assert.deepEqual(actual, ids[i], `${name}: ${JSON.stringify(text)}`);
    });
  }
});

Deno.test("readSentencePieceModel() looks for tokens of the configuration first", () => {
  const model = Deno.readFileSync(new URL("t5/spiece.model", root));
  const plain = readSentencePieceModel(model, "spiece.model");
  const token = { singleWord: false, lstrip: false, rstrip: false, normalized: false };
  const addedTokens = [{ ...token, id: plain.vocabSize, content: "<extra_id_0>", special: true }];
  const tokenizer = readSentencePieceModel(model, "spiece.model", { addedTokens });
  assert.equal(tokenizer.vocabSize, plain.vocabSize + 1);
  assert.deepEqual(tokenizer.encode("<extra_id_0>"), [plain.vocabSize, plain.eosId]);
});

Deno.test("readSentencePieceModel() begins texts of BPE models with their first token, and knows their pads", () => {
  const model = Deno.readFileSync(new URL("variants/bpe_bytes.model", root));
  const tokenizer = readSentencePieceModel(model, "bpe_bytes.model");
  const own = tokenizer.encode("the cat", { addSpecialTokens: false });
  assert.deepEqual(tokenizer.encode("the cat"), [3, ...own]);
  assert.deepEqual([tokenizer.padId, tokenizer.eosId], [0, 1]);
  assert.equal(tokenizer.decode(tokenizer.encode("the cat 猫")), "the cat 猫");
});

Deno.test("readSentencePieceModel() refuses what is neither a Unigram nor a BPE model, by file name", () => {
  const other = Uint8Array.of(0x0a, 3, 0x0a, 1, 0x61, 0x12, 2, 0x18, 3, 0x1a, 0);
  assert.throws(
    () => readSentencePieceModel(other, "x.model"),
    /x\.model: its model "word" is not supported; supported are Unigram and BPE/,
  );
  const whole = Deno.readFileSync(new URL("t5/spiece.model", root));
  for (const length of [5000, 5001, 5002, whole.length - 1]) {
    const cut = whole.subarray(0, length);
    assert.throws(() => readSentencePieceModel(cut, "x.model"), /x\.model: it is no /);
  }
  assert.throws(
    () => readSentencePieceModel(new Uint8Array(), "x.model"),
    /x\.model: it is no whole SentencePiece model/,
  );
  const text = new TextEncoder().encode("<!doctype html>");
  assert.throws(() => readSentencePieceModel(text, "x.model"), /Cannot read x\.model/);
  const onePiece = Uint8Array.of(0x0a, 3, 0x0a, 1, 0x61, 0x12, 0, 0x1a, 0);
  assert.throws(() => readSentencePieceModel(onePiece, "x.model"), /it has no unknown piece/);
});

/** Words alone count: white space may differ. */
function words(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== "");
}
