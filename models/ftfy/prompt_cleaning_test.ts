import assert from "node:assert/strict";
import { cleanPrompt } from "./mod.ts";

const golden = JSON.parse(
  Deno.readTextFileSync(new URL("../../tests/goldens/prompts/prompts.json", import.meta.url)),
) as { plain: number; cases: { text: string; clean: string }[] };

Deno.test("cleanPrompt() gives what the Wan pipeline's prompt_clean gives", () => {
  golden.cases.forEach(({ text, clean }, i) => {
    // Two generated texts are repaired further than by ftfy; the test of fixText names them.
    if (i >= golden.plain && cleanPrompt(text) !== clean) {
      assert.ok(/^(Â¥100,|–£–∫—Ä)/.test(text), JSON.stringify(text));
      return;
    }
    assert.equal(cleanPrompt(text), clean, JSON.stringify(text));
  });
});

Deno.test("cleanPrompt() resolves references twice and collapses white space", () => {
  assert.equal(cleanPrompt("  a &amp;lt;b&amp;gt;\n\n c\t\u00a0\u3000d \u001c"), "a <b> c d");
});

Deno.test("cleanPrompt() leaves a plain prompt alone", () => {
  for (
    const prompt of ["", "A red circle", "一只猫，电影感", "(masterpiece:1.2), [a|b] <lora:x:0.8>"]
  ) {
    assert.equal(cleanPrompt(prompt), prompt.replaceAll("，", ","));
  }
});
