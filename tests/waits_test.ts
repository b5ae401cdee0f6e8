/** How often a step of a full-size model waits, on a simulated graphics card. */
import assert from "node:assert/strict";
import { FLUX2_TRANSFORMER_CONFIG } from "../models/families/flux2/config.ts";
import { WAN_TRANSFORMER_CONFIG } from "../models/families/wan/config.ts";
import { Z_IMAGE_TRANSFORMER_CONFIG } from "../models/families/z_image/config.ts";
import { BASELINE_TARGET, planMemory, type Target, Weights } from "../runtime/mod.ts";
import { submitCost } from "../runtime/plan.ts";
import {
  flux2Steps,
  type Size,
  type StepModel,
  wanSteps,
  zImageSteps,
} from "../tools/bench/step_models.ts";
import { memoryTensors } from "./memory_tensors.ts";
import { type SimulatedSubmit, simulateRuns } from "./simulated_gpu.ts";

/** Of a card of the upper middle class. */
const FLOPS_PER_SECOND = 25e12;
const BYTES_PER_SECOND = 600e9;
/** Between two waits, in seconds. */
const GROUP_SECONDS = 0.09;

const TARGET: Target = {
  ...BASELINE_TARGET,
  limits: { ...BASELINE_TARGET.limits, maxBindingBytes: 2 ** 31 - 4, maxBufferBytes: 2 ** 31 - 4 },
};

/** The submits of one forward pass. */
function submitsOf(model: StepModel, size: Size): SimulatedSubmit[] {
  const weights = new Weights(memoryTensors(model.weights));
  const { graph } = model.step(TARGET, weights.root, size);
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

const zImage = zImageSteps(Z_IMAGE_TRANSFORMER_CONFIG.parse({}));
const klein = flux2Steps(FLUX2_TRANSFORMER_CONFIG.parse({
  ...{ num_layers: 5, num_single_layers: 20, num_attention_heads: 24 },
  guidance_embeds: false,
}));
const wan = wanSteps(
  WAN_TRANSFORMER_CONFIG.parse({ num_attention_heads: 12, num_layers: 30, ffn_dim: 8960 }),
  21,
  2,
);

const CASES: readonly [string, StepModel, Size, steps: number][] = [
  ["Z-Image 1024x1024", zImage, { width: 1024, height: 1024 }, 8],
  ["FLUX.2 klein 4B 1024x1024", klein, { width: 1024, height: 1024 }, 4],
  ["Wan 2.1 1.3B 832x480x81", wan, { width: 832, height: 480 }, 4],
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
