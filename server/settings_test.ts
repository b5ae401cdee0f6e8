import { strict as assert } from "node:assert";
import { hosts, origins, settingsOf } from "./settings.ts";

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

Deno.test("settingsOf() keeps results for ever on a loopback address, and for a week elsewhere", () => {
  const days = (given: Parameters<typeof settingsOf>[0]) => settingsOf(given).retainMs / 86_400_000;
  assert.deepEqual([{}, { host: "localhost" }, { host: "0.0.0.0" }].map(days), [0, 0, 7]);
  assert.deepEqual(days({ host: "0.0.0.0", retainMs: 0 }), 0);
  assert.deepEqual(days({ retainMs: 86_400_000 }), 1);
});
