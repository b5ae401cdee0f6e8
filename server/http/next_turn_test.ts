import { strict as assert } from "node:assert";
import { nextTurn, Stretch } from "./next_turn.ts";

/** Work that keeps the thread busy, in milliseconds. */
function work(ms: number): void {
  for (const start = performance.now(); performance.now() - start < ms;);
}

/** How often others had their turn while something was done. */
async function turnsDuring(use: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  await use();
  clearInterval(timer);
  return turns;
}

Deno.test("nextTurn() lets one of many go on at a time", async () => {
  const waiters = () => Array.from({ length: 20 }, () => nextTurn().then(() => work(5)));
  const turns = await turnsDuring(() => Promise.all(waiters()));
  assert.ok(turns >= 15, `${turns} turns between 20 waiters`);
});

Deno.test("Stretch.pause() ends a stretch after milliseconds, whatever its pieces", async () => {
  const turns = await turnsDuring(async () => {
    const stretch = new Stretch();
    for (let piece = 0; piece < 200; piece++) {
      work(1);
      await stretch.pause();
    }
  });
  assert.ok(turns >= 8, `${turns} turns in 200 ms`);
});
