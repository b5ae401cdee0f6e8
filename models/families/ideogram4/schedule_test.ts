import assert from "node:assert/strict";
import { guidanceAt, logitNormalSigmas, normalQuantile } from "./schedule.ts";

Deno.test("normalQuantile() gives what the reference does, from the middle to the ends", () => {
  // From `torch.special.ndtri`.
  const cases: [probability: number, value: number][] = [
    [0.5, 0],
    [0.75, 0.6744897501960817],
    [0.999, 3.090232306167813],
    [1 / 48, -2.0368341317013887],
    [1e-6, -4.753424308822899],
  ];
  for (const [probability, value] of cases) {
    const actual = normalQuantile(probability);
    assert.ok(Math.abs(actual - value) < 1e-10, `${probability}: ${actual}, not ${value}`);
  }
  assert.deepEqual([0, 1].map(normalQuantile), [-Infinity, Infinity]);
});

Deno.test("logitNormalSigmas() gives those of the reference, by steps and size", () => {
  // From `_logit_normal_sigmas` of diffusers 0.42.1, of some of the steps.
  const cases: [steps: number, pixels: number, sigmas: Record<number, number>][] = [
    [4, 512 * 512, { 0: 0.9998766183853149, 1: 0.7333594560623169, 2: 0.5, 3: 0.2666405141353607 }],
    [48, 1024 * 1024, { 1: 0.9769866466522217, 24: 0.6666666865348816, 47: 0.08610847592353821 }],
    [5, 40 * 56, { 0: 0.9998766183853149, 2: 0.11907820403575897, 4: 0.02549019083380699 }],
  ];
  for (const [steps, pixels, sigmas] of cases) {
    const actual = logitNormalSigmas(steps, pixels);
    assert.equal(actual.length, steps);
    for (const [i, sigma] of Object.entries(sigmas)) {
      assert.ok(
        Math.abs(actual[Number(i)]! - sigma) < 1e-7,
        `${steps}, ${i}: ${actual[Number(i)]}`,
      );
    }
  }
});

Deno.test("guidanceAt() is weaker in the last sixteenth of the steps, as the default of the reference", () => {
  const scales = Array.from({ length: 48 }, (_, i) => guidanceAt(7, i, 48));
  assert.deepEqual(scales, [...new Array<number>(45).fill(7), 3, 3, 3]);
  assert.deepEqual([guidanceAt(2, 47, 48), guidanceAt(7, 14, 15)], [2, 7]);
});
