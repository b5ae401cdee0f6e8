import assert from "node:assert/strict";
import { relativePositionBucket } from "./umt5.ts";

/** First distance of every bucket for 32 buckets and a maximum of 128, one direction. */
const FIRST_DISTANCES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91];

Deno.test("relativePositionBucket() equals the table of the reference for 32 buckets up to 128", () => {
  for (let distance = 0; distance <= 600; distance++) {
    const expected = FIRST_DISTANCES.findLastIndex((first) => first <= distance);
    assert.equal(relativePositionBucket(-distance, 32, 128), expected, `distance -${distance}`);
    const after = distance === 0 ? 0 : 16 + expected;
    assert.equal(relativePositionBucket(distance, 32, 128), after, `distance ${distance}`);
  }
});

Deno.test("relativePositionBucket() never leaves the buckets, for other sizes too", () => {
  for (const [buckets, longest] of [[8, 16], [16, 20], [32, 128], [64, 1000]] as const) {
    let previous = -1;
    for (let distance = 0; distance < 3 * longest; distance++) {
      const bucket = relativePositionBucket(-distance, buckets, longest);
      assert.ok(
        bucket >= previous && bucket < buckets / 2,
        `distance ${distance} has bucket ${bucket}`,
      );
      previous = bucket;
    }
    assert.equal(previous, buckets / 2 - 1);
  }
});
