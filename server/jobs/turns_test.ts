import assert from "node:assert/strict";
import { type Turn, Turns } from "./turns.ts";

/** Ids in the order in which they are taken. */
function taken(waiting: Turn[]): string[] {
  const turns = new Turns();
  const order = turns.order(waiting);
  const ids = order.map(() => turns.take(waiting)!.id);
  assert.deepEqual(ids, order);
  return ids;
}

Deno.test("Turns takes the highest priority first, and lets clients alternate within it", () => {
  const waiting = [
    { id: "low 1", client: "a", priority: -1 },
    { id: "low 2", client: "b", priority: -1 },
    { id: "a 1", client: "a" },
    { id: "a 2", client: "a" },
    { id: "b 1", client: "b", priority: 0 },
  ];
  assert.deepEqual(taken(waiting), ["a 1", "b 1", "a 2", "low 2", "low 1"]);
});

Deno.test("Turns counts a low priority as anyone's after ten minutes", () => {
  const now = Date.now();
  const waiting = [
    { id: "new", client: "a", priority: -1, since: now },
    { id: "old", client: "b", priority: -1, since: now - 600_000 },
    { id: "usual", client: "b", since: now },
  ];
  assert.deepEqual(taken(waiting), ["old", "usual", "new"]);
});
