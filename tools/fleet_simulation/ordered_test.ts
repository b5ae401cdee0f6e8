import { strict as assert } from "node:assert";
import fc from "fast-check";
import { Ordered } from "./ordered.ts";

Deno.test("Ordered.front() begins as a sorted list does, whatever is added and removed", () => {
  const steps = fc.array(fc.record({ key: fc.nat(50), removes: fc.nat(3) }), { maxLength: 80 });
  fc.assert(fc.property(steps, (list) => {
    const isBefore = (a: number[], b: number[]) =>
      a[0]! - b[0]! < 0 || a[0] === b[0] && a[1]! < b[1]!;
    const ordered = new Ordered<number[]>(isBefore);
    let all: number[][] = [];
    for (const [index, { key, removes }] of list.entries()) {
      const item = [key, index];
      ordered.add(item);
      all = [...all, item].sort((a, b) => a[0]! - b[0]! || a[1]! - b[1]!);
      for (let count = 0; count < removes && all.length > 0; count++) {
        const [gone] = all.splice((key + count) % all.length, 1);
        ordered.remove(gone!);
      }
      assert.deepEqual(ordered.front(3), all.slice(0, 3));
      assert.equal(ordered.first, all[0]);
    }
  }));
});
