/** Weighted and long prompts, and textual inversions, in whole pipelines of Stable Diffusion against diffusers. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { PromptSyntax } from "../../models/prompt_syntax/parse_prompt.ts";
import type { AppliedLora } from "../../models/lora/types.ts";
import { readLora } from "../../models/lora/read_lora.ts";
import type { Pipeline, PipelineRequest } from "../../models/mod.ts";
import { EmbeddingFile } from "../../models/textual_inversion/read_embedding.ts";
import { Golden, type GoldenCall } from "../support/golden.ts";
import { checkImage } from "../support/golden_image.ts";
import { textRequest } from "../support/golden_request.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";
import { safetensorsOf, type TensorValues, withFolder } from "../support/safetensors.ts";

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

/** The golden's embeddings as words of a LoRA, which changes nothing itself; those of SDXL have a tensor for each tower. */
function bundle(widths: readonly number[]): Uint8Array {
  const tensors: Record<string, TensorValues> = {
    "lora_unet_mid_block_attentions_0_proj_in.lora_down.weight": zeros([1, 64]),
    "lora_unet_mid_block_attentions_0_proj_in.lora_up.weight": zeros([64, 1]),
  };
  for (const [word, file] of Object.entries({ Style: "style.pt", pair: "pair.safetensors" })) {
    using learnt = EmbeddingFile.open(`${PARTS.embeddings}/${file}`);
    for (const [i, width] of widths.entries()) {
      const values = learnt.read(width);
      const name = widths.length > 1 ? ["clip_l", "clip_g"][i] : "string_to_param.*";
      const shape = [values ? values.length / width : 0, width];
      if (values) {
        tensors[`bundle_emb.${word}.${name}`] = { dtype: "f32", shape, values: [...values] };
      }
    }
  }
  return safetensorsOf(tensors);
}

function zeros(shape: readonly [number, number]): TensorValues {
  return { dtype: "f32", shape, values: new Array(shape[0] * shape[1]).fill(0) };
}

async function withWords(
  widths: readonly number[],
  pipeline: Pipeline,
  use: (loras: readonly AppliedLora[]) => Promise<void>,
): Promise<void> {
  await withFolder({ "words.safetensors": bundle(widths) }, async (folder) => {
    const lora = await readLora(`${folder}/words.safetensors`, pipeline.adaptable);
    const targets = ["transformer", "text_encoder", "text_encoder_2"] as const;
    await use([{ key: "words", lora, strength: 1, targets, mode: "dynamic" }]);
  });
}

const BUNDLES = [
  ["pipeline", "learnt", [32]],
  ["xl_pipeline", "xl_learnt", [32, 40]],
] as const;

for (const [model, name, widths] of BUNDLES) {
  const { folder } = new Golden(`stable_diffusion/${model}`);

  Deno.test(`generate() reads the embeddings that a LoRA brings as the reference reads files: ${model}`, () =>
    withPipeline(async ({ pipeline }) => {
      await withWords(widths, pipeline, async (loras) => {
        const [{ lora }] = loras as [AppliedLora];
        assert.deepEqual(lora.words!.map(({ name }) => name), ["Style", "pair"]);
        assert.deepEqual(lora.unmatchedKeys, []);
        const request = requestOf(prompts.call(name));
        await checkImage(prompts, name, pipeline, { ...request, loras });
        await assert.rejects(
          pipeline.generate({ ...request, loras, prompt: "embedding:none" }),
          /names the embedding "none", and the model has no folder of embeddings; .*; the LoRAs have style, pair$/,
        );
        await assert.rejects(pipeline.generate(request), /names the embedding "(?:style|pair)"/);
      });
    }, { folder }));
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
