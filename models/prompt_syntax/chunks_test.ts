import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { loadTokenizer } from "../tokenizers/mod.ts";
import { alignChunks, chunkPrompt } from "./chunks.ts";
import { parsePrompt, type PromptSyntax } from "./parse_prompt.ts";

const GOLDENS = fileURLToPath(new URL("../../tests/goldens", import.meta.url));
const tokenizer = await loadTokenizer(`${GOLDENS}/tokenizers/clip`);
const OPTIONS = { tokenizer, places: 77, maxChunks: 10 } as const;

interface Case {
  readonly syntax: PromptSyntax;
  readonly prompt: string;
  readonly pieces: readonly (readonly [text: string, weight: number] | "break")[];
  readonly texts: readonly { readonly ids: number[]; readonly weights: number[] }[];
}

const CASES: readonly Case[] = JSON.parse(
  Deno.readTextFileSync(`${GOLDENS}/prompt_weights/chunks.json`),
);

function assertNear(actual: readonly number[], expected: readonly number[]): void {
  assert.equal(actual.length, expected.length);
  actual.forEach((value, i) => assert.ok(Math.abs(value - expected[i]!) < 1e-9, `weight ${i}`));
}

for (const { syntax, prompt, pieces, texts } of CASES) {
  Deno.test(`chunkPrompt() gives the ids and weights of the rules: ${syntax}, ${prompt.slice(0, 40)} (${prompt.length})`, () => {
    const parsed = parsePrompt(prompt, syntax).filter((piece) =>
      piece === "break" || piece.text !== ""
    );
    assert.deepEqual(
      parsed.map((piece) => (piece === "break" ? piece : piece.text)),
      pieces.map((piece) => (piece === "break" ? piece : piece[0])),
    );
    const { chunks, rest } = chunkPrompt(prompt, { ...OPTIONS, syntax });
    assert.deepEqual(chunks.map(({ ids }) => ids), texts.map(({ ids }) => ids));
    chunks.forEach(({ weights }, i) => assertNear(weights, texts[i]!.weights));
    assert.deepEqual(rest, []);
  });
}

Deno.test("chunkPrompt() gives the words beyond the last text", () => {
  const prompt = "the old house ".repeat(40);
  const all = tokenizer.encode(prompt, { addSpecialTokens: false });
  const { chunks, read, rest } = chunkPrompt(prompt, { ...OPTIONS, syntax: "plain", maxChunks: 2 });
  assert.deepEqual([chunks.length, read], [2, 150]);
  assert.deepEqual(rest, all.slice(150));
});

Deno.test("chunkPrompt() cuts a prompt to a number of tokens, and parts no learnt word", () => {
  const splitWords = (text: string) =>
    text.split("STYLE").flatMap((part, i) => (i === 0 ? [part] : [[1000, 1001, 1002], part]));
  const prompt = "a a a a STYLE" + " a".repeat(100);
  for (
    const [maxTokens, read, texts] of [[1, 1, 1], [6, 4, 1], [7, 7, 1], [75, 75, 1], [80, 80, 2]]
  ) {
    const options = { ...OPTIONS, syntax: "plain", splitWords, maxTokens: maxTokens! } as const;
    const chunked = chunkPrompt(prompt, options);
    assert.deepEqual([chunked.read, chunked.chunks.length], [read, texts]);
    assert.equal(chunked.read + chunked.rest.length, 107);
    assert.ok(chunked.chunks.every(({ ids }) => ids.length === 77));
  }
  const broken = { ...OPTIONS, syntax: "a1111", maxTokens: 3 } as const;
  assert.equal(chunkPrompt("a BREAK BREAK a BREAK a a", broken).chunks.length, 4);
});

Deno.test("chunkPrompt() keeps the vectors of a learnt word in one text, and refuses more than one holds", () => {
  const splitWords = (text: string) =>
    text.split("STYLE").flatMap((part, i) => (i === 0 ? [part] : [[1000, 1001, 1002], part]));
  const prompt = "a ".repeat(73) + "STYLE";
  for (const syntax of ["plain", "a1111", "comfyui"] as const) {
    const { chunks } = chunkPrompt(prompt, { ...OPTIONS, syntax, splitWords });
    assert.equal(chunks.length, 2);
    assert.deepEqual(chunks[1]!.ids.slice(1, 5), [1000, 1001, 1002, tokenizer.eosId]);
  }
  const long = () => [new Array<number>(76).fill(1000)];
  assert.throws(
    () => chunkPrompt("x", { ...OPTIONS, syntax: "plain", splitWords: long }),
    /a learnt word has 76 vectors, a text has 75 places/,
  );
});

Deno.test("alignChunks() adds empty texts", () => {
  const { chunks } = chunkPrompt("a cat", { ...OPTIONS, syntax: "plain" });
  const [aligned] = alignChunks([chunks], 2, OPTIONS);
  assert.equal(aligned!.length, 2);
  const [begin, end, pad] = aligned![1]!.ids;
  assert.deepEqual([[begin, end], pad], [tokenizer.encode(""), tokenizer.padId]);
});
