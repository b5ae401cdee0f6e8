/** How LongCat-Image's prompts are cut into what is quoted and what is not, against the reference. */
import assert from "node:assert/strict";
import { quotedParts } from "../../models/families/longcat_image/prompt.ts";

type Reference = readonly [text: string, parts: readonly (readonly [string, boolean])[]];

Deno.test("quotedParts() cuts prompts at quotation marks as the reference does", () => {
  const file = new URL("../goldens/longcat_image/quotes.json", import.meta.url);
  const texts = JSON.parse(Deno.readTextFileSync(file)) as readonly Reference[];
  assert.ok(texts.length > 10);
  for (const [text, parts] of texts) {
    assert.deepEqual(quotedParts(text).map(({ text, isQuoted }) => [text, isQuoted]), parts, text);
  }
});

Deno.test("quotedParts() keeps several words with apostrophes, of which the reference loses all but one", () => {
  assert.deepEqual(quotedParts("don't write 'it's fine' or isn't"), [
    { text: "don't write ", isQuoted: false },
    { text: "'it's fine'", isQuoted: true },
    { text: " or isn't", isQuoted: false },
  ]);
});
