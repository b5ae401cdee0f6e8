/** How often a step of a full-size model waits, on a simulated graphics card. */
import assert from "node:assert/strict";
import { BASELINE_TARGET, planMemory, type Target } from "../../runtime/mod.ts";
import { submitCost } from "../../runtime/program/plan.ts";
import { MadeUpWeights } from "../../report/made_up_weights.ts";
import { klein4B, type ModelPart, type Size, wan1B, zImage } from "../../report/model_parts.ts";
import { type SimulatedSubmit, simulateRuns } from "../support/simulated_gpu.ts";

/** Speed of a card of the upper middle class. */
const FLOPS_PER_SECOND = 25e12;
const BYTES_PER_SECOND = 600e9;
/** Between two waits, in seconds. */
const GROUP_SECONDS = 0.09;

const TARGET: Target = {
  ...BASELINE_TARGET,
  limits: { ...BASELINE_TARGET.limits, maxBindingBytes: 2 ** 31 - 4, maxBufferBytes: 2 ** 31 - 4 },
};

/** The submits of one forward pass. */
function submitsOf(model: ModelPart, size: Size): SimulatedSubmit[] {
  const weights = new MadeUpWeights("BF16", model.hasBias);
  const { graph } = model.trace(TARGET, weights.root, size);
  const { submits } = planMemory({ step: graph }).programs.step!;
  return submits.map((parts) => ({
    cost: parts.reduce((sum, part) => sum + submitCost(part, TARGET), 0),
    seconds: parts.reduce((sum, { dispatch, workgroups }) => {
      const share = workgroups.reduce((x, size) => x * size, 1) /
        dispatch.workgroups.reduce((x, size) => x * size, 1);
      const { flops, bytes } = dispatch;
      return sum + share * Math.max(flops / FLOPS_PER_SECOND, bytes / BYTES_PER_SECOND);
    }, 0),
  }));
}

const CASES: readonly [string, ModelPart, Size, steps: number][] = [
  ["Z-Image 1024x1024", zImage(), { width: 1024, height: 1024 }, 8],
  ["FLUX.2 klein 4B 1024x1024", klein4B(), { width: 1024, height: 1024 }, 4],
  ["Wan 2.1 1.3B 832x480x81", wan1B(21, 2), { width: 832, height: 480 }, 4],
];

for (const [name, model, size, steps] of CASES) {
  Deno.test(`WorkQueue waits every 90 ms in a step of ${name}`, async () => {
    const submits = submitsOf(model, size);
    const seconds = submits.reduce((sum, submit) => sum + submit.seconds, 0);
    const { waits, longestGroup } = await simulateRuns(new Array(steps).fill(submits));
    const perStep = waits / steps;
    const allowed = 1.2 * seconds / GROUP_SECONDS + 2;
    assert.ok(submits.length > allowed, `${submits.length} submits would show nothing`);
    assert.ok(perStep <= allowed, `${perStep} waits in ${seconds} s, more than ${allowed}`);
    assert.ok(longestGroup < 0.2, `${longestGroup} s without progress`);
  });
}
