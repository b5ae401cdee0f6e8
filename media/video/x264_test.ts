import assert from "node:assert/strict";
import { crfOfQuality } from "./write.ts";

Deno.test("crfOfQuality() gives the factors that the contract lists", () => {
  const listed = [[100, 0], [90, 5], [55, 22], [50, 25], [35, 33], [0, 51]] as const;
  for (const [quality, crf] of listed) assert.equal(crfOfQuality(quality), crf, `${quality}`);
});
