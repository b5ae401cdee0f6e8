/** Edits with Qwen-Image-2.1 against diffusers: same folder, prompt, references and seed. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { fitOf, givenImage } from "../../generation/size.ts";
import { fitWithAlpha } from "../../media/fit.ts";
import {
  type ModelParts,
  openPipeline,
  type Pipeline,
  type PipelineRequest,
} from "../../models/mod.ts";
import { LLAMA_CPP_QWEN } from "../../models/text_encoders/qwen3.ts";
import { checkBudgets } from "../support/budgets.ts";
import { Golden } from "../support/golden.ts";
import { checkImage } from "../support/golden_image.ts";
import { textRequest } from "../support/golden_request.ts";
import { openTestDevice } from "../support/model_run.ts";
import { withSmallReferences } from "../support/small_references.ts";
import {
  type Bytes,
  framesOf,
  renamed,
  tensorsOf,
  writeGguf,
  writeSafetensors,
} from "../support/single_files.ts";

const golden = new Golden("qwen_image_21/pipeline");
/** Of latents, where factors are rounded to f16. */
const HALF_GATE = 2e-2;
const ignore = !Deno.env.has("DENOISE_SLOW");

async function withOpened(
  folder: string,
  use: (pipeline: Pipeline) => Promise<void>,
  parts: ModelParts = {},
  options: Parameters<typeof openTestDevice>[0] = {},
): Promise<void> {
  const device = await openTestDevice(options);
  try {
    using pipeline = await openPipeline(folder, parts);
    await pipeline.load(device);
    await use(pipeline);
  } finally {
    device.destroy();
  }
}

function requestOf(name: string, { info }: Pick<Pipeline, "info">): PipelineRequest {
  const call = golden.call(name);
  const request = textRequest(call);
  const rules = { ...info, maxPixels: Infinity };
  const images = call.inputs.map((input) => {
    const { shape: [height, width], data } = golden.tensor(name, input);
    const size = { width: width!, height: height! };
    const image = { ...size, channels: 4 as const, data: Uint8Array.from(data) };
    return givenImage(fitWithAlpha(image, fitOf(image, request, rules)));
  });
  const guidanceScale = call.args["true_cfg_scale"] as number | undefined ?? 1;
  return { ...request, task: "TI2I", images, guidanceScale };
}

Deno.test("QwenImage21Pipeline.generate() gives the reference's edit of an image", () =>
  withSmallReferences((folder) =>
    withOpened(folder, async (pipeline) => {
      assert.deepEqual([pipeline.info.maxImages, pipeline.info.taskDefaults], [3, {}]);
      await checkImage(golden, "edit", pipeline, requestOf("edit", pipeline));
    })
  ));

Deno.test({
  name:
    "QwenImage21Pipeline.generate() gives the reference's edit of several images with guidance, within any budget; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withSmallReferences(async (folder) => {
      let request: PipelineRequest;
      await withOpened(folder, async (pipeline) => {
        request = requestOf("several", pipeline);
        await checkImage(golden, "several", pipeline, request);
        // What was made of other images is not taken for theirs.
        const { width, height, data } = request.images![0]!;
        const images = [{ width, height, data }, request.images![1]!];
        const { latents } = await pipeline.generate({ ...request, images });
        assert.notEqual(latents[0], golden.tensor("several", "latents").data[0]);
      });
      await checkBudgets(folder, { ...request!, numInferenceSteps: 1 }, [0.6]);
    }),
});

Deno.test({
  name:
    "QwenImage21Pipeline.generate() keeps keys and values of references as f16 where attention rounds them; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withSmallReferences((folder) =>
      withOpened(
        folder,
        async (pipeline) => {
          const request = requestOf("several", pipeline);
          await checkImage(golden, "several", pipeline, request, HALF_GATE);
        },
        {},
        { schedule: "gpu", operands: "f16" },
      )
    ),
});

/** The tower as llama.cpp has it, of which `layer` is seen after the first layer of the language model. */
function mmproj(tower: ReadonlyMap<string, Bytes>, layer: number): Map<string, Bytes> {
  const names: readonly [RegExp | string, string][] = [
    [/^model\.visual\.blocks/, "v.blk"],
    [/^model\.visual\.pos_embed/, "v.position_embd"],
    [/^model\.visual\.merger\.norm/, "v.post_ln"],
    [/^model\.visual\.merger\.linear_fc1/, "mm.0"],
    [/^model\.visual\.merger\.linear_fc2/, "mm.2"],
    [/^model\.visual\.deepstack_merger_list\.0\.(linear_)?/, `v.deepstack.${layer}.`],
    [/^model\.visual\.patch_embed\.proj/, "v.patch_embd"],
    [".norm1.", ".ln1."],
    [".norm2.", ".ln2."],
    ["attn.qkv", "attn_qkv"],
    ["attn.proj", "attn_out"],
    ["mlp.linear_fc1", "ffn_up"],
    ["mlp.linear_fc2", "ffn_down"],
  ];
  return new Map([...tower].flatMap(([name, tensor]) => {
    const theirs = names.reduce((text, [from, to]) => text.replace(from, to), name);
    if (theirs !== "v.patch_embd.weight") return [[theirs, tensor] as const];
    return framesOf(tensor).map((own, i) => [i === 0 ? theirs : `${theirs}.${i}`, own] as const);
  }));
}

Deno.test({
  name:
    "text encoders with a vision tower under transformers', ComfyUI's and llama.cpp's names give the reference's edit; with DENOISE_SLOW",
  ignore,
  fn: (t) =>
    withSmallReferences(async (folder) => {
      const all = [...tensorsOf(`${golden.folder}/text_encoder`)];
      const isSeen = ([name]: readonly [string, unknown]) => name.startsWith("model.visual.");
      const file = (name: string) => join(folder, name);
      writeSafetensors(file("transformers.safetensors"), new Map(all));
      const comfy = all.map(([name, tensor]) =>
        [name.replace("language_model.", "").replace("model.visual.", "visual."), tensor] as const
      );
      writeSafetensors(file("comfyui.safetensors"), new Map(comfy));
      const language = all.filter((entry) => !isSeen(entry)).map(([name, tensor]) =>
        [name.replace("model.language_model.", ""), tensor] as const
      );
      writeGguf(file("Qwen3-VL-8B.gguf"), renamed(new Map(language), LLAMA_CPP_QWEN), "qwen3vl");
      writeGguf(file("mmproj-F16.gguf"), mmproj(new Map(all.filter(isSeen)), 8), "clip");
      for (
        const parts of [
          { textEncoder: file("transformers.safetensors") },
          { textEncoder: file("comfyui.safetensors") },
          // The tower lies beside it.
          { textEncoder: file("Qwen3-VL-8B.gguf") },
          { textEncoder: file("Qwen3-VL-8B.gguf"), mmproj: file("mmproj-F16.gguf") },
        ]
      ) {
        const tokenizer = golden.folder;
        await t.step(Object.values(parts).join(), () =>
          withOpened(folder, async (pipeline) => {
            await checkImage(golden, "edit", pipeline, requestOf("edit", pipeline));
          }, { ...parts, tokenizer }));
      }
    }),
});
