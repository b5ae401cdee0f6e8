import assert from "node:assert/strict";
import { changeReference, changesOfAllKinds } from "../../tests/support/lora_reference.ts";
import { branchRank, needsWriting, summedRank, toLowRank } from "./low_rank_form.ts";

const [ROWS, COLUMNS] = [16, 24];
const CHANGES = changesOfAllKinds(ROWS, COLUMNS);

const RANKS: Readonly<Record<string, number | undefined>> = {
  "low-rank": 3,
  "low-rank of some rows": 2,
  hadamard: 6,
  kronecker: 4,
  "kronecker of wholes": 2 * 6,
  whole: undefined,
};

for (const [name, change] of Object.entries(CHANGES)) {
  const rank = RANKS[name];
  Deno.test(`toLowRank() gives factors whose product is the change: ${name}`, () => {
    assert.equal(branchRank(change), rank);
    if (rank === undefined) {
      assert.throws(
        () => toLowRank(change),
        /Cannot factor a change of \[16, 24\]: it is stored whole/,
      );
      return;
    }
    const { down, up } = toLowRank(change);
    assert.deepEqual([down.shape, up.shape], [[rank, COLUMNS], [change.rows?.[1] ?? ROWS, rank]]);
    const { scale, rows } = change;
    const expected = changeReference(change, ROWS);
    const actual = changeReference(
      { kind: "low-rank", scale, ...(rows && { rows }), down, up },
      ROWS,
    );
    actual.forEach((value, i) => {
      const error = Math.abs(value - expected[i]!);
      assert.ok(error < 1e-6, `element ${i} is ${value}, should be ${expected[i]}`);
    });
  });
}

Deno.test("needsWriting() holds branches for too wide above rank 128, beside quantised weights above their size", () => {
  const rows = 512;
  const change = (name: string, columns = rows) => {
    const weight = [changesOfAllKinds(rows, columns)[name]!];
    return { target: "transformer" as const, module: "m", weight };
  };
  const shape = [rows, rows];
  const wide = change("kronecker of wholes");
  assert.equal(summedRank(wide), 2 * 128);
  assert.equal(needsWriting(wide, { shape, isQuantised: false }), true);
  assert.equal(needsWriting(wide, { shape, isQuantised: true }), true, "as large as the weight");
  assert.equal(
    needsWriting(change("kronecker of wholes", 256), {
      shape: [rows, 256],
      isQuantised: true,
    }),
    false,
    "128 rows of 768 are smaller",
  );
  for (const isQuantised of [false, true]) {
    assert.equal(needsWriting(change("low-rank"), { shape, isQuantised }), false);
    assert.equal(needsWriting(change("whole"), { shape, isQuantised }), true);
  }
});
