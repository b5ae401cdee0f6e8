import assert from "node:assert/strict";
import { fixEncoding, fixText } from "./mod.ts";

interface PromptCase {
  readonly text: string;
  readonly fixed: string;
}

const golden = JSON.parse(
  Deno.readTextFileSync(new URL("../../tests/goldens/prompts/prompts.json", import.meta.url)),
) as { plain: number; cases: PromptCase[] };

/** Texts that ftfy leaves damaged and this repair does not. */
const REPAIRED_FURTHER: Readonly<Record<string, string>> = {
  "Â¥100,": "¥100,",
  "–£–∫—Ä–∞—ó–Ω—Å—å–∫–∞: —Ä—ñ–∫, —ó—ó, “ë–∞–Ω–æ–∫, —î. –†—ñ–∫. –á—ó. –©–µ —Ä–∞–∑: –Ñ–≤—Ä–æ–ø–∞ ‚Ññ5":
    "Українська: рік, її, ґанок, є. Рік. Її. Ще раз: Європа №5",
};

Deno.test("fixText() gives what ftfy.fix_text gives, over sound, damaged and odd texts", () => {
  assert.ok(golden.cases.length > 500);
  for (const { text, fixed } of golden.cases) {
    assert.equal(fixText(text), REPAIRED_FURTHER[text] ?? fixed, JSON.stringify(text));
  }
});

Deno.test("fixText() changes nothing in what it has given", () => {
  for (const { text } of golden.cases) {
    // A "<" that an entity gave switches entities off for the second pass only.
    if (text.includes("&")) continue;
    const fixed = fixText(text);
    assert.equal(fixText(fixed), fixed, JSON.stringify(text));
  }
});

Deno.test("fixText() makes U+FFFD of lone surrogates and keeps pairs", () => {
  assert.equal(fixText("a\ud83db\udc00c\ud83d\ude00"), "a\ufffdb\ufffdc😀");
});

Deno.test("fixText() stops resolving entities from the first line with a '<'", () => {
  assert.equal(fixText("a &amp; b\n<i> &amp;\n&amp;"), "a & b\n<i> &amp;\n&amp;");
});

Deno.test("fixText() takes 100 kB of anything in well under a second", () => {
  const cases = {
    misread: "Ã©".repeat(50_000),
    leads: "Ã".repeat(100_000),
    symbols: "â€™ “x” ".repeat(12_000),
    references: "&" + "amp;".repeat(25_000),
    ampersands: "&".repeat(100_000),
    lines: "café\n".repeat(20_000),
    escapes: "\x1b[1;".repeat(25_000),
    spaces: " ".repeat(100_000),
  };
  for (const [name, text] of Object.entries(cases)) {
    const start = performance.now();
    fixText(text);
    const elapsed = performance.now() - start;
    // At most 0.2 s on the build machine; the bound leaves room for a busy one.
    assert.ok(elapsed < 2000, `${name} took ${elapsed.toFixed(0)} ms`);
  }
});

Deno.test("fixEncoding() undoes several misreadings, and none in sound text", () => {
  assert.equal(fixEncoding("cafÃƒÂ©"), "café");
  assert.equal(fixEncoding("naïve café, 25°C – “ok”…"), "naïve café, 25°C – “ok”…");
});
