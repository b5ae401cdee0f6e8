import { strict as assert } from "node:assert";
import { SessionCache } from "./session_cache.ts";
import type { SessionRunner } from "./session_runner.ts";

/** Sessions by name, and the names of those that were freed. */
function makeSessions() {
  const freed: string[] = [];
  const session = (name: string) => ({
    runner: { destroy: () => void freed.push(name) } as unknown as SessionRunner,
  });
  return { freed, session };
}

Deno.test("SessionCache frees the session used longest ago when there is a fifth", () => {
  const { freed, session } = makeSessions();
  const cache = new SessionCache();
  const first = session("a");
  cache.add("a", first);
  for (const name of ["b", "c", "d"]) cache.add(name, session(name));
  assert.equal(cache.find("a"), first);
  cache.add("e", session("e"));
  assert.deepEqual(freed, ["b"]);
  assert.equal(cache.find("b"), undefined);
  assert.equal(cache.find("a"), first);
});

Deno.test("SessionCache.dropOthers() frees sessions of another kind, each once", () => {
  const { freed, session } = makeSessions();
  const cache = new SessionCache();
  assert.equal(cache.dropOthers("small"), false);
  for (const name of ["a", "b", "c"]) cache.add(name, session(name));
  cache.drop("b");
  assert.equal(cache.dropOthers("small"), false);
  assert.deepEqual(freed, ["b"]);
  assert.equal(cache.dropOthers("large"), true);
  assert.deepEqual(freed.toSorted(), ["a", "b", "c"]);
  assert.equal(cache.clear(), false);
});
