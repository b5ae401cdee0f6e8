/**
 * Images of which a mask keeps a part, against those of the reference, which keeps latents alone.
 */
import assert from "node:assert/strict";
import { softEdge } from "../../media/mask.ts";
import type { PipelineRequest } from "../../models/mod.ts";
import { psnr } from "./pixels.ts";

/**
 * Checks that what is kept is the given image.
 *
 * @param frame RGB in [0, 1]
 * @param expected before it was put over the given image
 */
export function checkMasked(
  frame: Float32Array,
  { images, mask, width, height }: PipelineRequest,
  expected: ArrayLike<number>,
): number {
  const shares = softEdge(mask![0]!, width, height);
  const given = images![0]!.data;
  const [painted, wanted]: [number[], number[]] = [[], []];
  for (const [i, value] of frame.entries()) {
    const share = shares[Math.floor(i / 3)]!;
    if (share === 0) assert.equal(Math.round(value * 255), given[i], `kept at ${i}`);
    if (share < 1) continue;
    painted.push(value);
    wanted.push(expected[i]!);
  }
  assert.ok(painted.length > 0 && painted.length < frame.length, `${painted.length} are painted`);
  return psnr(painted, wanted);
}
