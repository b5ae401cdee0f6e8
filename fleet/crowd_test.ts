import { strict as assert } from "node:assert";
import { lookInterval, readsRoster, wakeDelay } from "./crowd.ts";

Deno.test("wakeDelay() is none for the only free worker, and leaves each of many a gap", () => {
  assert.equal(wakeDelay(0, 1), 0);
  assert.equal(wakeDelay(1, 1), 0);
  assert.equal(wakeDelay(101, 1), 300);
  assert.equal(wakeDelay(101, 0), 0);
  assert.equal(wakeDelay(10_000, 1), 1000);
});

Deno.test("lookInterval() keeps what all free workers read together bounded", () => {
  assert.equal(lookInterval(1, 1000), 1000);
  for (const free of [50, 500, 5000]) {
    assert.ok(free / (lookInterval(free, 1000) / 1000) <= 50, `${free}`);
  }
});

Deno.test("readsRoster() is true for each beat of a small fleet, and for some of a large one", () => {
  const readings = (members: number) =>
    Array.from({ length: 100 }, (_, beat) => readsRoster(beat, members)).filter(Boolean).length;
  assert.equal(readings(0), 100);
  assert.equal(readings(100), 100);
  assert.equal(readings(101), 50);
  assert.equal(readings(1000), 10);
  assert.equal(readings(10_000), 10);
});
