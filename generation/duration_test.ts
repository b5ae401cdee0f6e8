import assert from "node:assert/strict";
import { checkFps, checkRate, countFrames, type GivenDuration } from "./duration.ts";

const LIMITS = { numFrames: 9, fps: 8, frameMultiple: 4, maxFrames: 81 };

Deno.test("countFrames() takes frames before seconds, and the model's own before neither", () => {
  const cases: [GivenDuration, number, number][] = [
    [{}, 8, 9],
    [{ numFrames: 17 }, 8, 17],
    [{ numFrames: 17, seconds: 4 }, 8, 17],
    [{ seconds: 4 }, 8, 33],
    [{ seconds: "2" }, 24, 49],
    [{ seconds: "" }, 24, 9],
    [{ numFrames: 1 }, 8, 1],
    [{ numFrames: 10 }, 8, 9],
    [{ numFrames: 12 }, 8, 13],
  ];
  for (const [given, fps, frames] of cases) {
    assert.equal(countFrames(given, fps, LIMITS), frames, JSON.stringify(given));
  }
});

Deno.test("countFrames() and checkFps() refuse what no video can have", () => {
  const bad: GivenDuration[] = [
    { numFrames: 0 },
    { seconds: 0 },
    { seconds: "soon" },
    { seconds: 100 },
    { numFrames: 200 },
  ];
  for (const given of bad) {
    assert.throws(() => countFrames(given, 8, LIMITS), RangeError, JSON.stringify(given));
  }
  for (const fps of [0, NaN, 1000]) assert.throws(() => checkFps(fps), RangeError);
  checkRate(300);
  assert.throws(() => checkRate(384), /384 frames per second: H\.264 has at most 300; ask for a/);
});
