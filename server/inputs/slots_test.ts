import { strict as assert } from "node:assert";
import { Slots } from "./slots.ts";

Deno.test("Slots.run() lets so many work at once, in order, and those leave who give up", async () => {
  const slots = new Slots(2);
  const leaving = new AbortController();
  const { signal } = new AbortController();
  const begun: number[] = [];
  const ends = [0, 1, 2, 3].map(() => Promise.withResolvers<number>());
  const runs = ends.map((end, index) =>
    slots.run(() => {
      begun.push(index);
      return end.promise;
    }, index === 2 ? leaving.signal : signal)
  );
  assert.deepEqual(begun, [0, 1]);
  leaving.abort();
  await assert.rejects(runs[2]!, { name: "AbortError" });
  ends[0]!.reject(new Error("it failed"));
  await assert.rejects(runs[0]!, /it failed/);
  await Promise.resolve();
  assert.deepEqual(begun, [0, 1, 3]);
  for (const end of ends) end.resolve(7);
  assert.deepEqual(await Promise.all([runs[1], runs[3]]), [7, 7]);
  assert.equal(await slots.run(() => Promise.resolve(8), signal), 8);
});
