/** Pipelines within less memory than they would take. */
import assert from "node:assert/strict";
import type { PipelineRequest } from "../../models/pipeline/types.ts";
import { withPipeline } from "./pipeline_fixture.ts";

/**
 * Checks that a request gives the same frames, bit for bit, and stays within shares of the memory that it takes where it
 * has room.
 */
export async function checkBudgets(
  folder: string,
  request: PipelineRequest,
  shares: readonly number[],
): Promise<void> {
  const expected: Float32Array[] = [];
  let peakBytes = 0;
  await withPipeline(async ({ pipeline, device }) => {
    device.resetPeak();
    expected.push(...(await pipeline.generate(request)).frames);
    peakBytes = device.peakBytes;
  }, { folder });
  for (const share of shares) {
    const maxBytes = Math.floor(share * peakBytes);
    await withPipeline(async ({ pipeline, device }) => {
      device.resetPeak();
      const { frames } = await pipeline.generate(request);
      assert.deepEqual(frames, expected, `${maxBytes} of ${peakBytes} bytes`);
      assert.ok(device.peakBytes <= maxBytes, `${device.peakBytes} of ${maxBytes} bytes`);
    }, { folder, maxBytes });
  }
}
