import { strict as assert } from "node:assert";
import { hosts, origins } from "./settings.ts";

Deno.test("origins() and hosts() collect what requests may bring, and refuse what they never do", () => {
  const first = origins("https://app.example/", undefined);
  assert.deepEqual(origins("app://obsidian.md", first), [
    "https://app.example/",
    "app://obsidian.md",
  ]);
  assert.deepEqual(origins("*", []), ["*"]);
  for (const text of ["app.example", "https://app.example/page", "https://", ""]) {
    assert.throws(() => origins(text, []), RangeError, text);
  }
  assert.deepEqual(hosts("[::1]", hosts("images.example.org", [])), [
    "images.example.org",
    "[::1]",
  ]);
  for (const text of ["https://a.example", "a.example:443", "a.example/", ""]) {
    assert.throws(() => hosts(text, []), RangeError, text);
  }
});
