import assert from "node:assert/strict";
import type { PipelineProgress } from "../models/mod.ts";
import { describeCut, ProgressClock } from "./reports.ts";

/** The states after reports that come one second after the other. */
function run(reports: readonly [PipelineProgress["stage"], number, number][]) {
  let seconds = 0;
  const clock = new ProgressClock(() => seconds * 1000);
  return reports.map(([stage, step, totalSteps]) => {
    seconds++;
    return clock.update({ stage, step, totalSteps });
  });
}

Deno.test("ProgressClock.update() gives a share that never falls and ends at 1", () => {
  const states = run([
    ["encode", 0, 1],
    ["denoise", 0, 2],
    ["denoise", 1, 2],
    ["denoise", 2, 2],
    ["decode", 0, 2],
    ["decode", 1, 2],
    ["decode", 2, 2],
  ]);
  const fractions = states.map(({ fraction }) => fraction);
  assert.deepEqual(fractions, fractions.toSorted((a, b) => a - b));
  assert.equal(fractions[0], 0);
  assert.equal(fractions.at(-1), 1);
});

Deno.test("ProgressClock.update() keeps a share that a late report would lower", () => {
  const [first, second] = run([["decode", 0, 1], ["denoise", 1, 4]]);
  assert.equal(second!.fraction, first!.fraction);
});

Deno.test("ProgressClock.update() counts denoising steps in every stage", () => {
  const states = run([["encode", 0, 1], ["denoise", 3, 4], ["decode", 1, 9]]);
  assert.deepEqual(states.map(({ step, totalSteps }) => [step, totalSteps]), [[0, 0], [3, 4], [
    3,
    4,
  ]]);
});

Deno.test("ProgressClock.update() tells the time left from the second step on", () => {
  const states = run([["encode", 0, 1], ["denoise", 0, 4], ["denoise", 1, 4], ["denoise", 2, 4]]);
  assert.deepEqual(states.map((state) => "etaSeconds" in state), [false, false, false, true]);
  const { fraction, etaSeconds } = states[3]!;
  assert.equal(fraction, 0.05 + 0.85 / 2);
  assert.equal(etaSeconds, 4 * (1 - fraction) / fraction);
});

Deno.test("ProgressClock.update() has no time left at the end", () => {
  assert.equal(run([["decode", 3, 3]])[0]!.etaSeconds, 0);
});

Deno.test("describeCut() says how much of a prompt is read, and what helps", () => {
  const cut = { prompt: "prompt", tokens: 645, read: 512, unread: "on a blue ground" } as const;
  const sentence =
    'The prompt has 645 tokens, and the first 512 are read; not read: "on a blue ground"';
  assert.equal(describeCut(cut, { maxSequenceLength: 512 }), sentence);
  assert.equal(
    describeCut(cut, { maxSequenceLength: 1024 }),
    `${sentence}; max_sequence_length reads up to 1024`,
  );
  assert.equal(
    describeCut({ ...cut, prompt: "negative_prompt", read: 0 }, { maxSequenceLength: 512 }),
    'The negative prompt is not read, for there is no guidance: "on a blue ground"',
  );
});
