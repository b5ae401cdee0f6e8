import assert from "node:assert/strict";
import { parseCase } from "./cases.ts";
import type { Contender } from "./contender.ts";
import { compareOp, maxError } from "./measure.ts";

const OP = parseCase("matmul:2x2x2");

/** Contenders on a clock of their own, which moves only while they work; every wait takes 10 ms. */
function stage() {
  let time = 0;
  const turns: string[] = [];
  const contender = (
    name: string,
    perRun: () => number,
    { values = [1, 2, 3, 4], copies = 1 }: { values?: number[]; copies?: number } = {},
  ): Contender => ({
    name,
    prepare: () =>
      Promise.resolve({
        copies,
        run(times: number) {
          if (times > 1) turns.push(name);
          for (let i = 0; i < times; i++) time += perRun();
          time += 10;
          return Promise.resolve();
        },
        result: () => Promise.resolve(Float32Array.from(values)),
        destroy: () => void turns.push(`end of ${name}`),
      }),
    close() {},
  });
  const options = { rounds: 3, turnMs: 100, limitMs: 1e9, now: () => time };
  return { contender, options, turns };
}

Deno.test("compareOp() takes the empty wait off, divides by copies and counts the best", async () => {
  const { contender, options } = stage();
  let calls = 0;
  // The first run compiles, and later ones are disturbed more and less.
  const uneven = () => calls++ === 0 ? 500 : 20 + (calls % 7);
  const [steady, other] = await compareOp(
    [
      contender("steady", () => 50),
      contender("other", uneven, { copies: 4 }),
    ],
    OP,
    options,
  );
  assert.equal(steady!.milliseconds, 50);
  assert.ok(other!.milliseconds! >= 20 / 4 && other!.milliseconds! < 26 / 4);
});

Deno.test("compareOp() gives everybody a turn in every round and frees all at the end", async () => {
  const { contender, options, turns } = stage();
  await compareOp([contender("a", () => 10), contender("b", () => 20)], OP, options);
  assert.deepEqual(turns, ["a", "b", "a", "b", "a", "b", "end of a", "end of b"]);
});

Deno.test("compareOp() stops after one round where time is up", async () => {
  const { contender, options, turns } = stage();
  await compareOp([contender("a", () => 10)], OP, { ...options, limitMs: 1 });
  assert.deepEqual(turns, ["a", "end of a"]);
});

Deno.test("compareOp() does not time who computes something else", async () => {
  const { contender, options, turns } = stage();
  const wrong = contender("wrong", () => 1, { values: [1, 2, 3, 5] });
  const [, result] = await compareOp([contender("a", () => 10), wrong], OP, options);
  assert.equal(result!.milliseconds, undefined);
  assert.equal(result!.maxError, 0.25);
  assert.match(result!.reason!, /its result differs by 2.5e-1 of the largest element/);
  assert.ok(!turns.includes("wrong"));
  assert.equal(turns.filter((turn) => turn === "end of wrong").length, 1);
});

Deno.test("compareOp() says why a peer cannot, and fails where the first one cannot", async () => {
  const { contender, options } = stage();
  const broken: Contender = {
    name: "broken",
    prepare: () => Promise.reject(new Error("no such op")),
    close() {},
  };
  const [, result] = await compareOp([contender("a", () => 10), broken], OP, options);
  assert.deepEqual([result!.milliseconds, result!.reason], [undefined, "no such op"]);
  await assert.rejects(compareOp([broken, contender("a", () => 10)], OP, options), /no such op/);
});

Deno.test("maxError() is a share of the largest element, and infinite for NaN", () => {
  const expected = Float32Array.of(1, -4, 2);
  assert.equal(maxError(Float32Array.of(1, -4, 3), expected), 0.25);
  assert.equal(maxError(expected, expected), 0);
  assert.equal(maxError(new Float32Array(2), new Float32Array(2)), 0);
  assert.equal(maxError(Float32Array.of(1, NaN, 2), expected), Infinity);
  assert.equal(maxError(Float32Array.of(1, -4), expected), Infinity);
});
