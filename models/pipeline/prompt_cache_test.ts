import assert from "node:assert/strict";
import { PromptCache } from "./prompt_cache.ts";

const states = (length: number, value = 1) => new Float32Array(length).fill(value);

Deno.test("PromptCache keeps the prompts that were used last, within its bytes", () => {
  const cache = new PromptCache(100);
  for (const [i, key] of ["a", "b", "c"].entries()) cache.set(key, states(8, i));
  assert.equal(cache.calculatedSize, 96);
  assert.equal(cache.get("a")?.[0], 0);
  cache.set("d", states(9));
  assert.equal(cache.get("b"), undefined);
  assert.equal(cache.get("c")?.[0], 2);
  assert.equal(cache.get("a")?.[0], 0);
  assert.equal(cache.calculatedSize, 100);
});

Deno.test("PromptCache.set() replaces an entry, and keeps nothing that is too large for it", () => {
  const cache = new PromptCache(100);
  cache.set("a", states(4));
  cache.set("a", states(2, 5));
  assert.deepEqual([cache.calculatedSize, cache.get("a")?.[1]], [8, 5]);
  cache.set("b", states(26));
  assert.deepEqual([cache.calculatedSize, cache.get("b")], [8, undefined]);
});
