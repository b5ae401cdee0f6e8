import assert from "node:assert/strict";
import { Checkpoint } from "../../runtime/mod.ts";
import { encodeGguf, type GgufField } from "../../tests/support/gguf.ts";
import { encodeSafetensors, withFolder } from "../../tests/support/safetensors.ts";
import { tokenizerGoldens } from "../../tests/support/tokenizer_goldens.ts";
import { hasTokenizer, readEmbeddedTokenizer } from "./embedded.ts";
import { parseSentencePieceModel } from "./sentencepiece_model.ts";
import type { Tokenizer } from "./tokenizer.ts";

const root = tokenizerGoldens();

function readJson<T>(path: string): T {
  return JSON.parse(Deno.readTextFileSync(new URL(path, root))) as T;
}

type Fields = Readonly<Record<string, GgufField>>;

/** The tokenizer of a GGUF file with this metadata, by keys without `tokenizer.ggml.`. */
function fromGguf(fields: Fields): Tokenizer {
  const metadata = Object.entries(fields).map(([key, field]) =>
    [`tokenizer.ggml.${key}`, field] as const
  );
  return fromFile("model.gguf", encodeGguf({ metadata }));
}

function fromFile(name: string, bytes: Uint8Array): Tokenizer {
  return withFolder({ [name]: bytes }, (folder) => {
    using checkpoint = Checkpoint.open(`${folder}/${name}`);
    assert.ok(hasTokenizer(checkpoint));
    return readEmbeddedTokenizer(checkpoint);
  });
}

interface QwenFiles {
  readonly model: { readonly vocab: Record<string, number>; readonly merges: [string, string][] };
  readonly added_tokens: { readonly id: number; readonly content: string; special: boolean }[];
}

function qwenFields(): Fields {
  const { model, added_tokens } = readJson<QwenFiles>("qwen2/tokenizer.json");
  const tokens = Object.entries(model.vocab).sort((a, b) => a[1] - b[1]).map(([text]) => text);
  for (const { id, content } of added_tokens) tokens[id] = content;
  const special = new Map(added_tokens.map((token) => [token.id, token.special]));
  // llama.cpp fills the rows that no token has.
  tokens.push("[PAD908]");
  return {
    model: { text: "gpt2" },
    pre: { text: "qwen2" },
    tokens: { texts: tokens },
    token_type: {
      i32s: tokens.map((_, id) => id === 908 ? 5 : special.has(id) ? special.get(id) ? 3 : 4 : 1),
    },
    merges: { texts: model.merges.map((pair) => pair.join(" ")) },
    eos_token_id: { u32: 900 },
    padding_token_id: { u32: 901 },
  };
}

Deno.test("readEmbeddedTokenizer() gives the ids of Hugging Face's tokenizers for Qwen's vocabulary in GGUF", () => {
  const tokenizer = fromGguf(qwenFields());
  const { texts, ids } = readJson<{ texts: string[]; ids: number[][] }>("qwen2/ids.json");
  texts.forEach((text, i) => assert.deepEqual(tokenizer.encode(text), ids[i], text));
  assert.deepEqual([tokenizer.eosId, tokenizer.padId], [900, 901]);
});

function pieceFields(file: string): Fields {
  const model = parseSentencePieceModel(Deno.readFileSync(new URL(file, root)), file);
  return {
    model: { text: "t5" },
    tokens: { texts: model.pieces },
    scores: { f32s: Array.from(model.scores) },
    token_type: { i32s: model.types },
    ...(model.charsmap.length > 0 && { precompiled_charsmap: { bytes: model.charsmap } }),
    add_space_prefix: { bool: model.addDummyPrefix },
    remove_extra_whitespaces: { bool: model.removeExtraWhitespaces },
    eos_token_id: { u32: model.pieces.indexOf("</s>") },
    padding_token_id: { u32: model.pieces.indexOf("<pad>") },
  };
}

for (const folder of ["t5", "umt5"]) {
  const texts = readJson<string[]>("texts.json");
  const { sentencepiece } = readJson<{ sentencepiece: number[][] }>(`${folder}/ids.json`);
  const check = (tokenizer: Tokenizer) =>
    texts.forEach((text, i) => {
      assert.deepEqual(tokenizer.encode(text, { addSpecialTokens: false }), sentencepiece[i], text);
      assert.deepEqual(tokenizer.encode(text), [...sentencepiece[i]!, tokenizer.eosId]);
    });

  Deno.test(`readEmbeddedTokenizer() gives the ids of SentencePiece for a vocabulary in GGUF: ${folder}`, () => {
    check(fromGguf(pieceFields(`${folder}/spiece.model`)));
  });

  Deno.test(`readEmbeddedTokenizer() reads the tensor with a SentencePiece model that ComfyUI adds: ${folder}`, () => {
    const bytes = Deno.readFileSync(new URL(`${folder}/spiece.model`, root));
    const entry = { dtype: "U8", shape: [bytes.length], data_offsets: [0, bytes.length] };
    check(fromFile("t5.safetensors", encodeSafetensors({ spiece_model: entry }, bytes)));
  });
}

Deno.test("readEmbeddedTokenizer() gives the ids of SentencePiece for BPE with scores: Gemma's in GGUF, and the tensor that ComfyUI adds", () => {
  const path = "variants/bpe_bytes.model";
  const { texts, models } = readJson<{ texts: string[]; models: Record<string, number[][]> }>(
    "variants/ids.json",
  );
  const { remove_extra_whitespaces: _, ...fields } = pieceFields(path);
  const ends = { eos_token_id: { u32: 1 }, padding_token_id: { u32: 0 } };
  const bytes = Deno.readFileSync(new URL(path, root));
  const entry = { dtype: "U8", shape: [bytes.length], data_offsets: [0, bytes.length] };
  const header = { "spiece_model": entry };
  for (
    const tokenizer of [
      fromGguf({ ...fields, ...ends, model: { text: "llama" } }),
      fromFile("gemma_2_2b.safetensors", encodeSafetensors(header, bytes)),
    ]
  ) {
    texts.forEach((text, i) => {
      const own = models["bpe_bytes"]![i]!;
      assert.deepEqual(tokenizer.encode(text), [3, ...own], JSON.stringify(text));
    });
    assert.equal(tokenizer.padId, 0);
  }
});

Deno.test("readEmbeddedTokenizer() refuses kinds that it does not know, and arrays that do not fit", () => {
  const fields = qwenFields();
  const cases: [Fields, RegExp][] = [
    [
      { ...fields, model: { text: "bert" } },
      /its kind is "bert"; supported are gpt2, t5 and llama/,
    ],
    [{ ...fields, model: { u32: 3 } }, /its kind is 3/],
    [{ ...fields, pre: { text: "constructor" } }, /it cuts text as "constructor"; supported is/],
    [{ ...fields, tokens: { i32s: [1] } }, /it lacks tokenizer\.ggml\.tokens/],
    [{ ...fields, token_type: { i32s: [1, 1] } }, /token_type must have 909 numbers/],
    [{ ...fields, merges: { texts: ["x"] } }, /Cannot read/],
    [{ ...fields, tokens: { texts: ["a"] }, token_type: { i32s: [1] } }, /Cannot read/],
    [{ model: { text: "t5" }, tokens: { texts: ["a"] } }, /token_type must have 1 numbers/],
  ];
  for (const [wrong, message] of cases) {
    assert.throws(() => fromGguf(wrong), (error) => {
      assert.ok(error instanceof TypeError, `${error}`);
      assert.match(error.message, message);
      return true;
    });
  }
});
