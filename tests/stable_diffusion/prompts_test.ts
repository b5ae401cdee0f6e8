/** Weighted and long prompts, and textual inversions, in whole pipelines of Stable Diffusion against diffusers. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { PromptSyntax } from "../../models/prompt_syntax/parse_prompt.ts";
import type { PipelineRequest } from "../../models/mod.ts";
import { Golden, type GoldenCall } from "../support/golden.ts";
import { checkImage } from "../support/golden_image.ts";
import { textRequest } from "../support/golden_request.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";

const prompts = new Golden("stable_diffusion/prompts");
const FOLDER = fileURLToPath(new URL("../goldens/stable_diffusion/prompts", import.meta.url));
const PARTS = { embeddings: `${FOLDER}/embeddings` };

function requestOf(call: GoldenCall): PipelineRequest {
  return { ...textRequest(call), promptSyntax: call.args["prompt_syntax"] as PromptSyntax };
}

for (const model of ["pipeline", "xl_pipeline"]) {
  const { folder } = new Golden(`stable_diffusion/${model}`);

  Deno.test(`generate() reads weights, long prompts and embeddings as the reference does: ${model}`, async (t) => {
    await withPipeline(async ({ pipeline }) => {
      for (const call of prompts.calls.filter(({ args }) => args["model"] === model)) {
        await t.step(call.name, () => checkImage(prompts, call.name, pipeline, requestOf(call)));
      }
    }, { folder, parts: PARTS });
  });
}

Deno.test("generate() tells what of a prompt is beyond its last text, and refuses unknown embeddings", async () => {
  const { folder } = new Golden("stable_diffusion/pipeline");
  await withPipeline(async ({ pipeline }) => {
    assert.deepEqual(pipeline.info.embeddings, [
      { name: "pair", vectors: 2, width: 32, isUsable: true },
      { name: "style", vectors: 2, width: 32, isUsable: true },
    ]);
    const request = { ...requestOf(prompts.call("long")), numInferenceSteps: 1 };
    const { cutPrompts: [cut] } = await pipeline.generate({ ...request, maxSequenceLength: 75 });
    assert.deepEqual([cut!.prompt, cut!.read], ["prompt", 75]);
    assert.ok(cut!.tokens > 75 && cut!.unread.length > 0);
    await assert.rejects(pipeline.generate({ ...request, prompt: "embedding:none" }), {
      name: "RangeError",
      message:
        'Cannot read the prompt: it names the embedding "none", and the folder has pair, style',
    });
  }, { folder, parts: PARTS });
});
