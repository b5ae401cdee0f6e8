import { strict as assert } from "node:assert";
import { chooseWords, hasOpenBrace } from "./wildcards.ts";

Deno.test("chooseWords() chooses each word about as often, inner ones first, and the same for a seed", () => {
  const counts = new Map([["a x", 0], ["b x", 0], ["c x", 0], ["d x", 0]]);
  for (let seed = 0; seed < 3000; seed++) {
    const words = chooseWords("{a|b|{c|d}} x", seed);
    counts.set(words, counts.get(words)! + 1);
  }
  for (const [index, expected] of [1000, 1000, 500, 500].entries()) {
    const count = [...counts.values()][index]!;
    assert.ok(Math.abs(count - expected) < 120, `${[...counts]}`);
  }
  assert.equal(chooseWords("{a|b} {c|d}", 2 ** 32 + 5), chooseWords("{a|b} {c|d}", 5));
  assert.match(chooseWords("a {red|green} {fox|hen}", 1), /^a (red|green) (fox|hen)$/);
});

Deno.test("chooseWords() leaves everything else as it is, in linear time", () => {
  const texts = ["", "a {fox} in {} {", "a | b", "} {", "{a|b", "{{a}|b", "a }|{ b"];
  for (const text of texts) assert.equal(chooseWords(text, 1), text);
  for (let seed = 0; seed < 20; seed++) assert.equal(chooseWords("{|a}", seed), "a");
  assert.equal(chooseWords("{|}", 1), "");
  assert.equal(
    chooseWords(String.raw`\{a\|b\} \(c\) \ {d\|e|d\|e}`, 1),
    String.raw`{a|b} \(c\) \ d|e`,
  );
  assert.ok(["x {f}", "x g"].includes(chooseWords("x {{f}|g}", 3)));
  const start = performance.now();
  for (const piece of ["{", "{|", "|", "{a|", "}{|"]) chooseWords(piece.repeat(100_000), 1);
  assert.ok(performance.now() - start < 2000);
});

Deno.test("hasOpenBrace() finds a brace that nothing closes, unless it is written as text", () => {
  for (const prompt of ["{", "a {red|green fox", "{a|{b|c}", "{a}{b", "}{"]) {
    assert.ok(hasOpenBrace(prompt), prompt);
  }
  for (const prompt of ["", "a fox", "{a|b}", "{a|{b|c}}", "}", String.raw`\{ a`, "{a\\{}"]) {
    assert.ok(!hasOpenBrace(prompt), prompt);
  }
});
