import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { BytePairEncoding } from "./byte_pair_encoding.ts";
import { loadTokenizer, readTokenizerJson, type Tokenizer } from "./mod.ts";

const folder = fileURLToPath(new URL("../../tests/goldens/tokenizers/qwen2", import.meta.url));

function readJson<T>(name: string): T {
  return JSON.parse(Deno.readTextFileSync(join(folder, name))) as T;
}

const golden = readJson<{
  readonly texts: readonly string[];
  readonly ids: readonly (readonly number[])[];
  readonly decoded: readonly string[];
}>("ids.json");

/** Calls `use` with a tokenizer of some of the golden's files. */
async function withFiles(
  names: readonly string[],
  use: (tokenizer: () => Promise<Tokenizer>, folder: string) => Promise<void>,
): Promise<void> {
  const copy = await Deno.makeTempDir();
  try {
    for (const name of names) await Deno.copyFile(join(folder, name), join(copy, name));
    await use(() => loadTokenizer(copy), copy);
  } finally {
    await Deno.remove(copy, { recursive: true });
  }
}

const FILES = {
  "tokenizer.json": ["tokenizer.json", "tokenizer_config.json"],
  "vocab.json and merges.txt": ["vocab.json", "merges.txt", "tokenizer_config.json"],
};

for (const [title, names] of Object.entries(FILES)) {
  Deno.test(`loadTokenizer() gives the ids of Hugging Face's tokenizers for Qwen's BPE, from ${title}`, async () => {
    await withFiles(names, async (load) => {
      const tokenizer = await load();
      assert.equal(tokenizer.vocabSize, 908);
      assert.deepEqual(tokenizer.encode("<|im_end|><|endoftext|>"), [
        tokenizer.eosId,
        tokenizer.padId,
      ]);
      golden.texts.forEach((text, i) => {
        assert.deepEqual(tokenizer.encode(text), golden.ids[i], JSON.stringify(text));
        assert.deepEqual(words(tokenizer.decode(golden.ids[i]!)), words(golden.decoded[i]!));
      });
    });
  });
}

Deno.test("loadTokenizer() gives the ids of Hugging Face's tokenizers for Gemma's BPE, with byte fallback", async () => {
  const folder = fileURLToPath(new URL("../../tests/goldens/tokenizers/gemma", import.meta.url));
  const { texts, ids, decoded } = JSON.parse(
    Deno.readTextFileSync(join(folder, "ids.json")),
  ) as typeof golden;
  const tokenizer = await loadTokenizer(folder);
  assert.deepEqual([tokenizer.padId, tokenizer.eosId, ...tokenizer.encode("")], [0, 1, 2]);
  texts.forEach((text, i) => {
    assert.deepEqual(tokenizer.encode(text), ids[i], JSON.stringify(text));
    // Tokens that are marks alone are shown as such.
    const shown = tokenizer.decode(ids[i]!).replaceAll("\u2581", " ");
    assert.deepEqual(words(shown), words(decoded[i]!), JSON.stringify(text));
  });
});

Deno.test("BytePairEncoding.encode() gives what is unknown its bytes, or one id for all of a run", () => {
  const pieces = ["a", "<unk>", "<0xC3>", "<0xA9>"];
  const encode = (text: string, byteFallback: boolean, isFused: boolean) =>
    new BytePairEncoding({
      ids: new Map(pieces.map((piece, id) => [piece, id])),
      merges: [],
      keepsWholePieces: false,
      byteFallback,
      unknown: { id: 1, isFused },
    }).encode(text);
  assert.deepEqual(encode("a\u00e9z\u017ea", true, false), [0, 2, 3, 1, 1, 0]);
  assert.deepEqual(encode("a\u00e9z\u017ea", true, true), [0, 2, 3, 1, 0]);
  assert.deepEqual(encode("\u00e9a", false, true), [1, 0]);
});

Deno.test("loadTokenizer() refuses vocab.json and merges.txt whose tokenizer's class it cannot know", async () => {
  await withFiles(["vocab.json", "merges.txt"], async (load, folder) => {
    await assert.rejects(load(), /vocab\.json: its tokenizer_config\.json names no class/);
    await Deno.writeTextFile(
      join(folder, "tokenizer_config.json"),
      `{"tokenizer_class": "constructor"}`,
    );
    await assert.rejects(
      load(),
      /names the class "constructor".*reads CLIPTokenizer, Qwen2Tokenizer/,
    );
  });
});

Deno.test("readTokenizerJson() takes merges as strings and as pairs, and knows BPE without its type", () => {
  const json = readJson<{ model: { merges: [string, string][] } }>("tokenizer.json");
  const pairs = readTokenizerJson(json, "tokenizer.json");
  const merges = json.model.merges.map((pair) => pair.join(" "));
  const strings = readTokenizerJson(
    { ...json, model: { ...json.model, merges, type: undefined } },
    "tokenizer.json",
  );
  for (const text of golden.texts) assert.deepEqual(strings.encode(text), pairs.encode(text));
});

Deno.test("readTokenizerJson() takes a vocabulary that leaves ids out", () => {
  const json = readJson<{ model: { vocab: Record<string, number>; merges: [string, string][] } }>(
    "tokenizer.json",
  );
  const whole = readTokenizerJson(json, "tokenizer.json");
  const { vocab, merges } = json.model;
  const [left] = Object.entries(vocab).find(([piece]) =>
    !merges.some((pair) => [...pair, pair.join("")].includes(piece))
  )!;
  const { [left]: _, ...others } = vocab;
  const model = { ...json.model, vocab: others };
  const tokenizer = readTokenizerJson({ ...json, model }, "tokenizer.json");
  assert.deepEqual(tokenizer.encode("a b"), whole.encode("a b"));
});

Deno.test("readTokenizerJson() names what is wrong with a BPE model", () => {
  const json = readJson<{ model: { vocab: object } }>("tokenizer.json");
  const cases: readonly [object, RegExp][] = [
    [{ merges: ["a"] }, /model\.merges\[0\] is not a pair of pieces/],
    [{ merges: ["a b c"] }, /model\.merges\[0\] is not a pair of pieces/],
    [{ merges: [["a", 1]] }, /model\.merges\[0\] is not a pair of pieces/],
    [{ merges: ["a zz9"] }, /model\.merges cannot be used: .*"zz9" is not in the vocabulary/],
    [{ merges: {} }, /model\.merges is not an array/],
    [{ vocab: [] }, /model\.vocab is not an object/],
    [{ vocab: { a: -1 } }, /model\.vocab\.a is not a whole number/],
    [{ vocab: { a: 2 ** 30 } }, /model\.vocab\.a is 1073741824, ids must be below 4194304/],
    [
      { continuing_subword_prefix: "##" },
      /continuing_subword_prefix is set, which is not supported/,
    ],
    [{ dropout: 0.1 }, /model\.dropout is set/],
    [{ type: "WordPiece" }, /model "WordPiece".*supported are Unigram, BPE/],
  ];
  for (const [parts, message] of cases) {
    assert.throws(
      () => readTokenizerJson({ ...json, model: { ...json.model, ...parts } }, "tokenizer.json"),
      { name: "TypeError", message },
    );
  }
});

Deno.test("BytePairEncoding.encode() joins the earliest merge first, leftmost of equal ones", () => {
  const pieces = ["a", "b", "c", "ab", "bc", "abc", "aa"];
  const ids = new Map(pieces.map((piece, id) => [piece, id]));
  const encode = (text: string, merges: [string, string][], keepsWholePieces = false) =>
    new BytePairEncoding({ ids, merges, keepsWholePieces }).encode(text).map((id) => pieces[id]);
  assert.deepEqual(encode("abc", [["a", "b"], ["b", "c"]]), ["ab", "c"]);
  assert.deepEqual(encode("abc", [["b", "c"], ["a", "b"]]), ["a", "bc"]);
  assert.deepEqual(encode("abc", [["b", "c"], ["a", "b"], ["a", "bc"]]), ["abc"]);
  assert.deepEqual(encode("aaa", [["a", "a"]]), ["aa", "a"]);
  assert.deepEqual(encode("aab", [["a", "b"], ["a", "a"]]), ["a", "ab"]);
  assert.deepEqual(encode("a?b", [["a", "b"]]), ["ab"]);
  assert.deepEqual(encode("abc", [], true), ["abc"]);
  assert.deepEqual(encode("", []), []);
});

Deno.test("Tokenizer.encode() stays fast on 100 kB of anything for Qwen's BPE", async () => {
  const tokenizer = await loadTokenizer(folder);
  const long: Record<string, string> = {
    mixed: golden.texts.join(" ").repeat(20).slice(0, 100_000),
    letter: "a".repeat(100_000),
    letters: "the".repeat(33_000),
    spaces: " ".repeat(100_000),
    lines: "\n \n".repeat(33_000),
    emoji: "👩‍👩‍👧‍👦".repeat(9_000),
    tokens: "<|im_end|> ".repeat(9_000),
  };
  for (const [name, text] of Object.entries(long)) {
    const start = performance.now();
    tokenizer.encode(text);
    const elapsed = performance.now() - start;
    // 30 to 150 ms on the build machine; the bound leaves room for a busy one.
    assert.ok(elapsed < 2000, `${name} took ${elapsed.toFixed(0)} ms`);
  }
});

/** Words alone count: white space may differ. */
function words(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== "");
}
