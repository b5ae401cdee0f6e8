/** Requests of one kind, one after the other on a device. */
import assert from "node:assert/strict";
import type { PipelineRequest } from "../../models/mod.ts";
import type { Fixture } from "./pipeline_fixture.ts";

/** Checks that a second request of a kind gives another result, creates nothing on the device, and leaves nothing there. */
export async function checkSecondRequest(
  { device, pipeline }: Fixture,
  request: PipelineRequest,
  change: Partial<PipelineRequest>,
): Promise<void> {
  const first = await pipeline.generate(request);
  const { pipelines, bindGroups, buffers } = device.counters;
  assert.ok(pipelines > 0 && bindGroups > 0 && buffers > 0);
  const { allocatedBytes } = device;
  const second = await pipeline.generate({ ...request, ...change });
  assert.notDeepEqual(second.latents, first.latents);
  const after = device.counters;
  assert.deepEqual([after.pipelines, after.bindGroups, after.buffers], [
    pipelines,
    bindGroups,
    buffers,
  ]);
  assert.equal(device.allocatedBytes, allocatedBytes);
  const again = await pipeline.generate(request);
  assert.deepEqual(again.latents, first.latents, "nothing of the second request is left");
}
