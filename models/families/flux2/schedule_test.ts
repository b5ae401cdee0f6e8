import assert from "node:assert/strict";
import { empiricalMu } from "./schedule.ts";

Deno.test("empiricalMu() gives what the reference does, on either side of 4300 tokens", () => {
  // From `compute_empirical_mu` of diffusers 0.42.1.
  const cases: [tokens: number, steps: number, mu: number][] = [
    [16, 4, 1.9452163656143495],
    [256, 4, 1.965567161408539],
    [1024, 50, 1.7019562073086316],
    [4096, 4, 2.291179894115571],
    [4096, 50, 2.0233511571292637],
    [4300, 10, 2.27407142532],
    [4301, 10, 1.18469693],
    [8192, 28, 1.8433265],
  ];
  for (const [tokens, steps, mu] of cases) {
    const actual = empiricalMu(tokens, steps);
    assert.ok(
      Math.abs(actual - mu) < 1e-12,
      `${tokens} tokens, ${steps} steps: ${actual}, not ${mu}`,
    );
  }
});
