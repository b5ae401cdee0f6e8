import assert from "node:assert/strict";
import { mirrorOf } from "./debian.ts";

Deno.test("mirrorOf() takes the mirror of a release, not that of its updates", () => {
  const targets = "Debian bookworm-security http://one.example/debian-security/\n" +
    "Other bookworm http://two.example/\nDebian bookworm http://three.example/debian/\n";
  assert.equal(mirrorOf(targets), "http://three.example/debian/");
});

Deno.test("mirrorOf() finds none on another system", () => {
  assert.equal(mirrorOf("Ubuntu noble http://one.example/ubuntu/\n"), undefined);
  assert.equal(mirrorOf(""), undefined);
});
