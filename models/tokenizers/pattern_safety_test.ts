import { findRisk, translatePattern } from "./pattern_safety.ts";

import assert from "node:assert/strict";

const riskOf = (source: string) => findRisk(source, translatePattern);

/** Patterns of tokenizers that models come with. */
const KNOWN = {
  "GPT-2": String
    .raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`,
  "Llama 3": String
    .raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  "Qwen 2": String
    .raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  "o200k": String
    .raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  "DeepSeek V3": String
    .raw`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  "CLIP": String
    .raw`<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+`,
  "T5": " {2,}",
  "CJK": String.raw`[一-龥぀-ゟ゠-ヿ]+`,
};

for (const [name, source] of Object.entries(KNOWN)) {
  Deno.test(`findRisk() has nothing against the pattern of ${name}`, () => {
    assert.equal(riskOf(source), undefined);
  });
}

const RISKY: Readonly<Record<string, RegExp>> = {
  "a*a*a*a*a*b": /the same characters twice/,
  "a*a*b": /the same characters twice/,
  "\\s+\\p{White_Space}*$": /the same characters twice/,
  "\\w{2,}[a-z]{0,999}!": /the same characters twice/,
  "a+(?:x?|a+)b": /the same characters twice/,
  "a+aa+b": /the same characters twice/,
  "(?:a*){5}b": /a group that repeats/,
  "(?:a+a+b)?c": /the same characters twice/,
  "a+(?:a+b)?c": /the same characters twice/,
  "(?=a*a*b)x": /the same characters twice/,
  "(a*)\\1\\1\\1b": /refers back/,
  "(?<x>a*)\\k<x>b": /refers back/,
  "(a+)+$": /a group that repeats/,
  "(?:a|a)*b": /a group that repeats/,
  [`${"(?:a|b)".repeat(10)}c`]: /too many choices/,
  [`${"a?".repeat(12)}b`]: /the same characters twice/,
  [`${"a{0,16}".repeat(3)}b`]: /the same characters twice/,
  [`${"a{1,16}?".repeat(3)}b`]: /the same characters twice/,
  [`${"[a-z]?\\w?".repeat(6)}b`]: /the same characters twice/,
  [`(?:${"a?".repeat(24)}b)?`]: /the same characters twice/,
  [`(?=${"a?".repeat(24)}b)x`]: /the same characters twice/,
  [`${"a?".repeat(4)}a+b`]: /the same characters twice/,
  [`a+${"a?".repeat(4)}b`]: /the same characters twice/,
  "(?:a|a){16}b": /a group that repeats/,
  "(?:a?a?){8}b": /a group that repeats/,
};

for (const [source, reason] of Object.entries(RISKY)) {
  Deno.test(`findRisk() says what is wrong with ${source.slice(0, 30)}`, () => {
    assert.match(riskOf(source) ?? "nothing", reason);
  });
}

for (
  const source of [
    "a+b",
    "a+ba+c",
    "\\\\1",
    "(?:abc)+",
    "a+b+c",
    "\\s*[\\r\\n]+",
    "a+a+",
    "a?a?a?b",
    "a?b?c?d?e?f?g?h?i?j?k?l?!",
    "(?:ab){2}c",
  ]
) {
  Deno.test(`findRisk() has nothing against ${source}`, () => {
    assert.equal(riskOf(source), undefined);
  });
}

Deno.test("what findRisk() lets pass takes no second for a long text", () => {
  const cases = [...Object.values(KNOWN), `${"a?".repeat(10)}b`, "a{0,16}a{0,16}b", "a?a?a?a+b"];
  for (const source of cases) {
    const pattern = translatePattern(source);
    const isKnown = Object.values(KNOWN).includes(source);
    if (!isKnown && riskOf(source) !== undefined) continue;
    for (
      const pump of ["a", "A", " ", "\n", "1", "!", "é", "\u0301", "龥", "😀", "'", " a", "a1"]
    ) {
      const text = pump.repeat(8000 / pump.length) + "\0";
      const start = performance.now();
      for (const _ of text.matchAll(pattern));
      const ms = performance.now() - start;
      assert.ok(ms < 2000, `${source.slice(0, 40)} on ${JSON.stringify(pump)}: ${ms} ms`);
    }
  }
});

Deno.test("findRisk() does not guess what it cannot read", () => {
  for (const source of ["(a", "a)", "(?>a)"]) assert.throws(() => riskOf(source), SyntaxError);
});
