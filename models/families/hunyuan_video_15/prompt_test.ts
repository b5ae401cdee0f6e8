import assert from "node:assert/strict";
import { byteTokenizer } from "../../tokenizers/mod.ts";
import { glyphTokens } from "./prompt.ts";

const tokenizer = byteTokenizer({}, "a file");
const read = (prompt: string) => tokenizer.decode(glyphTokens(prompt, tokenizer));

// As `extract_glyph_texts` of diffusers gives them.
const CASES: readonly (readonly [prompt: string, read: string])[] = [
  ["a fox", ""],
  ['a sign "OPEN"', 'Text "OPEN". '],
  ['"a" and “b” and "a"', 'Text "a". Text "b". '],
  ['"a“b" c”', 'Text "a“b". '],
  ['“a"b” "', 'Text "a"b". '],
  ['"', ""],
  ['""', 'Text "". '],
  ['"a\nb"', ""],
  ['"a\nb" "c"', 'Text " ". '],
  ["“a “b” c”", 'Text "a “b". '],
  ["”a“", ""],
];

Deno.test("glyphTokens() reads what is in quotes on a line, each text once", () => {
  for (const [prompt, expected] of CASES) assert.equal(read(prompt), expected, prompt);
});

Deno.test("glyphTokens() cuts long texts before the end token, and tells the rest", () => {
  const rest: number[] = [];
  const ids = glyphTokens(`"${"a".repeat(300)}"`, tokenizer, (cut) => void rest.push(...cut));
  assert.deepEqual([ids.length, ids.at(-1), rest.length], [256, 1, 300 + 'Text "". '.length - 255]);
});
