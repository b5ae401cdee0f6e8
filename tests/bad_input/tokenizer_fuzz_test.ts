import assert from "node:assert/strict";
import { join } from "node:path";
import fc from "fast-check";
import {
  loadTokenizer,
  readSentencePieceModel,
  readTokenizerConfig,
  readTokenizerJson,
  type Tokenizer,
} from "../../models/tokenizers/mod.ts";
import { tokenizerGoldens } from "../support/tokenizer_goldens.ts";
import { BUNDLED } from "./damaged_model.ts";

const TEXT = Deno.readTextFileSync(join(BUNDLED, "tokenizer", "tokenizer.json"));
const SENTENCEPIECE = new URL("t5/spiece.model", tokenizerGoldens());
const SAMPLES = ["a red circle", "", "  ", "naïve\u0000 \ud800 😀", "\u2581<0x0A></s><pad>"];

/** Reads and uses a tokenizer: its ids must be of its vocabulary, or the refusal be one sentence. */
function useOrRefuse(read: () => Tokenizer): "used" | "refused" {
  const start = performance.now();
  let tokenizer: Tokenizer;
  try {
    tokenizer = read();
  } catch (error) {
    assert.ok(error instanceof TypeError, `${(error as Error).stack}`);
    assert.match(error.message, /^Cannot read [^\n]{1,1500}$/);
    return "refused";
  }
  for (const sample of SAMPLES) {
    const ids = tokenizer.encode(sample, { maxLength: 64 });
    assert.ok(ids.length <= 64);
    for (const id of ids) {
      assert.ok(Number.isSafeInteger(id) && id >= 0 && id < tokenizer.vocabSize);
    }
  }
  assert.ok(performance.now() - start < 10_000, "takes too long");
  return "used";
}

/** Puts a value in the place of one that is somewhere in a JSON value. */
function replaceAt(json: unknown, steps: readonly number[], value: unknown): unknown {
  const [step, ...rest] = steps;
  if (step === undefined || typeof json !== "object" || json === null) return value;
  const keys = Object.keys(json);
  const key = keys[step % Math.max(1, keys.length)];
  if (key === undefined) return value;
  const copy: Record<string, unknown> = Array.isArray(json)
    ? json.slice() as unknown as Record<string, unknown>
    : { ...json };
  copy[key] = replaceAt(copy[key], rest, value);
  return copy;
}

/** Values that are nearly right somewhere. */
const VALUES = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom(
    -1,
    1.5,
    1e9,
    1e300,
    "",
    "\u2581",
    "(a+)+$",
    "AAAA",
    [[""]],
    { Regex: "a*" },
    { String: "" },
    { type: "Sequence", normalizers: [], pretokenizers: [], decoders: [] },
    { type: "Prepend", prepend: "\u2581" },
    { type: "Metaspace", replacement: "_" },
    { type: "Precompiled", precompiled_charsmap: "CAAAAAECAwQFBgcIAAE=" },
  ),
);

Deno.test("readTokenizerJson() uses or refuses a file in which one value is another", () => {
  assert.equal(useOrRefuse(() => readTokenizerJson(JSON.parse(TEXT), "f.json")), "used");
  const steps = fc.array(fc.nat(700), { minLength: 0, maxLength: 6 });
  fc.assert(
    fc.property(steps, VALUES, (path, value) => {
      const json = replaceAt(JSON.parse(TEXT), path, value);
      useOrRefuse(() => readTokenizerJson(json, "f.json"));
    }),
    { numRuns: 1500 },
  );
});

Deno.test("readTokenizerConfig() uses or refuses any JSON", () => {
  const token = fc.oneof(fc.jsonValue(), fc.record({ content: fc.jsonValue() }));
  const config = fc.oneof(
    fc.record({
      eos_token: token,
      pad_token: token,
      added_tokens_decoder: fc.oneof(
        fc.dictionary(fc.oneof(fc.nat().map(String), fc.string()), token),
        token,
      ),
    }, { requiredKeys: [] }),
    fc.jsonValue(),
  );
  fc.assert(fc.property(config, (json) => {
    const parsed: unknown = JSON.parse(JSON.stringify(json));
    useOrRefuse(() =>
      readTokenizerJson(JSON.parse(TEXT), "f.json", readTokenizerConfig(parsed, "c.json"))
    );
  }));
});

Deno.test("readSentencePieceModel() uses or refuses a file with bytes changed or cut off", () => {
  const whole = Deno.readFileSync(SENTENCEPIECE);
  assert.equal(useOrRefuse(() => readSentencePieceModel(whole, "s.model")), "used");
  const change = fc.tuple(fc.nat(whole.length - 1), fc.nat(255));
  fc.assert(
    fc.property(fc.array(change, { maxLength: 5 }), fc.nat(whole.length), (changes, length) => {
      const bytes = whole.slice(0, length % 3 === 0 ? length : whole.length);
      for (const [at, value] of changes) if (at < bytes.length) bytes[at] = value;
      useOrRefuse(() => readSentencePieceModel(bytes, "s.model"));
    }),
    { numRuns: 300 },
  );
});

Deno.test("readTokenizerJson() refuses stages nested without end", () => {
  const nested = (depth: number) => {
    let stage: unknown = { type: "NFC" };
    for (let i = 0; i < depth; i++) stage = { type: "Sequence", normalizers: [stage] };
    return { ...JSON.parse(TEXT), normalizer: stage };
  };
  assert.equal(useOrRefuse(() => readTokenizerJson(nested(10), "f.json")), "used");
  assert.equal(useOrRefuse(() => readTokenizerJson(nested(50_000), "f.json")), "refused");
});

Deno.test("loadTokenizer() refuses files that are no JSON, none at all, or a folder", async () => {
  const files: [name: string, content: string | undefined, message: RegExp][] = [
    ["tokenizer.json", "<html>", /tokenizer\.json: it is a web page/],
    ["tokenizer.json", "", /tokenizer\.json: it is not valid JSON: it is empty/],
    ["tokenizer.json", "version https://git-lfs.github.com/spec/v1\n", /run git lfs pull/],
    ["tokenizer.json", undefined, /tokenizer\.json: it is a folder/],
    ["spiece.model", undefined, /spiece\.model: it is not a file/],
    ["spiece.model", "version https://git-lfs", /it is no (?:whole )?SentencePiece model/],
    ["other.txt", "", /has none of tokenizer\.json, vocab\.json with merges\.txt, spiece\.model/],
  ];
  for (const [name, content, message] of files) {
    const folder = Deno.makeTempDirSync();
    try {
      if (content === undefined) Deno.mkdirSync(join(folder, name));
      else Deno.writeTextFileSync(join(folder, name), content);
      await assert.rejects(loadTokenizer(folder), message);
    } finally {
      Deno.removeSync(folder, { recursive: true });
    }
  }
});
