import assert from "node:assert/strict";
import { unescapeHtml } from "./mod.ts";

const golden = JSON.parse(
  Deno.readTextFileSync(new URL("../../tests/goldens/prompts/prompts.json", import.meta.url)),
) as Record<"cases" | "references", { text: string; unescaped: string }[]>;

Deno.test("unescapeHtml() gives what Python's html.unescape gives", () => {
  assert.ok(golden.references.length > 70);
  for (const { text, unescaped } of [...golden.cases, ...golden.references]) {
    assert.equal(unescapeHtml(text), unescaped, JSON.stringify(text));
  }
});

Deno.test("unescapeHtml() finds names without a semicolon by the longest match", () => {
  assert.equal(unescapeHtml("&notit; &notin; &copycat &nosuch;"), "¬it; ∉ ©cat &nosuch;");
});

Deno.test("unescapeHtml() replaces numbers of no character, and drops controls", () => {
  assert.equal(unescapeHtml("&#0;&#xD800;&#x110000;"), "\ufffd\ufffd\ufffd");
  assert.equal(unescapeHtml("&#x80;&#153;&#x81;"), "€™\u0081");
  assert.equal(unescapeHtml("a&#1;&#x0b;&#127;&#xfffe;&#xfdd0;b"), "ab");
  assert.equal(unescapeHtml("&#9;&#10;&#12;&#13;"), "\t\n\f\r");
});
