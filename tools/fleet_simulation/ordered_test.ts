import { strict as assert } from "node:assert";
import fc from "fast-check";
import { Heap, Ordered } from "./ordered.ts";

Deno.test("Heap.pop() gives what was pushed, in its order", () => {
  fc.assert(fc.property(fc.array(fc.integer()), (numbers) => {
    const heap = new Heap<number>((a, b) => a < b);
    for (const number of numbers) heap.push(number);
    assert.deepEqual(numbers.map(() => heap.pop()), numbers.toSorted((a, b) => a - b));
    assert.equal(heap.pop(), undefined);
  }));
});

Deno.test("Ordered.first() begins as a sorted list does, whatever is added and removed", () => {
  const steps = fc.array(fc.record({ key: fc.nat(50), removes: fc.nat(3) }), { maxLength: 80 });
  fc.assert(fc.property(steps, (list) => {
    const ordered = new Ordered<{ key: number; isGone: boolean }>(3, (a, b) => a.key < b.key);
    let all: { key: number; isGone: boolean }[] = [];
    for (const { key, removes } of list) {
      const item = { key, isGone: false };
      ordered.add(item);
      all = [...all, item].sort((a, b) => a.key - b.key);
      for (let index = 0; index < removes && index < all.length; index++) {
        ordered.first()[0]!.isGone = true;
        all = all.filter(({ isGone }) => !isGone);
      }
      const first = ordered.first().slice(0, 3).map((found) => found.key);
      assert.deepEqual(first, all.slice(0, 3).map((found) => found.key));
    }
  }));
});
