import assert from "node:assert/strict";
import { hasRoom } from "./fair_share.ts";

Deno.test("hasRoom() leaves room for the next client, however much others queue", () => {
  const own = [0, 0, 0];
  const all = () => own.reduce((sum, jobs) => sum + jobs);
  for (let client = 0; client < own.length; client++) {
    while (hasRoom(own[client]!, all(), 100)) own[client]!++;
  }
  assert.deepEqual(own, [50, 25, 13]);
  assert.equal(hasRoom(7, 99, 100), true, "a few are always taken");
  assert.equal(hasRoom(8, 99, 100), false);
  assert.equal(hasRoom(0, 99, 100), true);
  assert.equal(hasRoom(0, 100, 100), false);
});
