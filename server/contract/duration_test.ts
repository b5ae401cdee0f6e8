import assert from "node:assert/strict";
import { type DurationFields, readDuration } from "./duration.ts";
import { ApiError } from "./errors.ts";

const LIMITS = { numFrames: 9, fps: 8, frameMultiple: 4, maxFrames: 81 };

Deno.test("readDuration() takes frames before seconds, and the model's own before neither", () => {
  const cases: [DurationFields, number, number][] = [
    [{}, 9, 8],
    [{ num_frames: 17 }, 17, 8],
    [{ num_frames: 17, seconds: 4 }, 17, 8],
    [{ seconds: 4 }, 33, 8],
    [{ seconds: "2", fps: 24 }, 49, 24],
    [{ fps: 24 }, 9, 24],
    [{ num_frames: 1 }, 1, 8],
    [{ num_frames: 10 }, 9, 8],
    [{ num_frames: 12 }, 13, 8],
  ];
  for (const [fields, numFrames, fps] of cases) {
    assert.deepEqual(readDuration(fields, LIMITS), { numFrames, fps }, JSON.stringify(fields));
  }
});

Deno.test("readDuration() refuses what no video can have", () => {
  const bad: DurationFields[] = [
    { num_frames: 0 },
    { fps: 0 },
    { fps: 1000 },
    { seconds: 0 },
    { seconds: "soon" },
    { seconds: 100 },
    { num_frames: 200 },
  ];
  for (const fields of bad) {
    assert.throws(
      () => readDuration(fields, LIMITS),
      (error) => error instanceof ApiError && error.status === 400,
      JSON.stringify(fields),
    );
  }
});
