/** Whole FLUX.1 pipelines against diffusers: same folder, prompt, image and seed, from text to pixels. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { readLora } from "../../models/lora/read_lora.ts";
import { cannyEdges } from "../../media/canny.ts";
import type { InputImage } from "../../models/pipeline/types.ts";
import type { LoraTensor } from "../../models/lora/types.ts";
import type { Pipeline, PipelineRequest } from "../../models/mod.ts";
import { randomNormal } from "../../runtime/ops/ndarray.ts";
import { assertClose, distance, Golden, type GoldenCall } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { readTensors } from "../support/lora_files.ts";
import { checkImage, LATENT_GATE } from "../support/golden_image.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";
import { withFolder } from "../support/safetensors.ts";

/** `LATENT_GATE` where LoRAs were written into weights, which are stored as bf16. */
const MERGED_GATE = 1e-2;

const DEV = new Golden("flux1/dev");
const FILL = new Golden("flux1/fill");
const CONTROL = new Golden("flux1/control");
const SCHNELL = new Golden("flux1/schnell");

function requestOf(golden: Golden, call: GoldenCall): PipelineRequest {
  const { name, args, inputs } = call;
  const { strength, true_cfg_scale: trueCfgScale } = args as Record<string, number | undefined>;
  const request = textRequest(call);
  if (!inputs.includes("given")) {
    return { ...request, ...(trueCfgScale !== undefined && { trueCfgScale }) };
  }
  const { shape, data } = golden.tensor(name, "given");
  const [height, width] = shape as [number, number];
  return {
    ...request,
    task: "TI2I",
    images: [{ width, height, data: Uint8Array.from(data) }],
    ...(inputs.includes("mask") && { mask: [Uint8Array.from(golden.tensor(name, "mask").data)] }),
    ...(strength !== undefined && { strength }),
    ...(strength === undefined && inputs.includes("mask") && { strength: 1 }),
  };
}

function isKontext({ args }: GoldenCall): boolean {
  return (args["pipeline"] as string).startsWith("FluxKontext");
}

Deno.test("Flux1Pipeline.generate() gives the images of diffusers, guided, from an image and by a mask too: dev", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    for (const call of DEV.calls) {
      if (isKontext(call) || call.name === "adapted") continue;
      await t.step(call.name, () => checkImage(DEV, call.name, pipeline, requestOf(DEV, call)));
    }
  }, { folder: DEV.folder });
});

Deno.test("Flux1Pipeline.generate() gives the images of diffusers: Kontext, from an image and without one", (t) =>
  withFolder({}, async (folder) => {
    cpSync(DEV.folder, folder, { recursive: true });
    const path = join(folder, "model_index.json");
    const index = JSON.parse(Deno.readTextFileSync(path));
    Deno.writeTextFileSync(
      path,
      JSON.stringify({ ...index, _class_name: "FluxKontextPipeline" }),
    );
    await withPipeline(async ({ pipeline }) => {
      for (const call of DEV.calls) {
        if (!isKontext(call)) continue;
        await t.step(call.name, () => checkImage(DEV, call.name, pipeline, requestOf(DEV, call)));
      }
    }, { folder });
  }));

Deno.test("Flux1Pipeline.generate() gives the images of diffusers: Fill, from noise and from a part of it", (t) =>
  withFolder({}, async (folder) => {
    cpSync(DEV.folder, folder, { recursive: true });
    cpSync(join(FILL.folder, "transformer"), join(folder, "transformer"), { recursive: true });
    await withPipeline(async ({ pipeline }) => {
      assert.deepEqual(pipeline.info.supportedTasks, ["TI2I"]);
      assert.equal(pipeline.info.defaults.guidanceScale, 30);
      for (const call of FILL.calls) {
        await t.step(call.name, () => checkImage(FILL, call.name, pipeline, requestOf(FILL, call)));
      }
      await t.step("from noise levels below 1 as by strength", async () => {
        const request = requestOf(FILL, FILL.call("partly"));
        const from = { ...request, numInferenceSteps: 4, strength: 0.5 };
        const [half, levels] = [
          await pipeline.generate(from),
          await pipeline.generate({
            ...from,
            numInferenceSteps: 2,
            strength: 1,
            sigmas: [0.5, 0.25],
          }),
        ];
        const data = (data: Float32Array) => ({ shape: [data.length], data });
        assertClose("latents", data(levels.latents), data(half.latents), 1e-6);
      });
    }, { folder });
  }));

Deno.test("Flux1Pipeline.generate() gives the image of diffusers: Canny and Depth, after a picture", () =>
  withFolder({}, async (folder) => {
    cpSync(DEV.folder, folder, { recursive: true });
    cpSync(join(CONTROL.folder, "transformer"), join(folder, "transformer"), { recursive: true });
    const path = join(folder, "model_index.json");
    const index = JSON.parse(Deno.readTextFileSync(path));
    Deno.writeTextFileSync(path, JSON.stringify({ ...index, _class_name: "FluxControlPipeline" }));
    await withPipeline(async ({ pipeline }) => {
      const { supportedTasks, inpainting, taskDefaults } = pipeline.info;
      assert.deepEqual({ supportedTasks, inpainting, taskDefaults }, {
        ...{ supportedTasks: ["TI2I"], inpainting: undefined, taskDefaults: {} },
      });
      for (const call of CONTROL.calls) {
        await checkImage(CONTROL, call.name, pipeline, requestOf(CONTROL, call));
      }
      const request = requestOf(CONTROL, CONTROL.call("control"));
      const [{ width, height, data }] = request.images as [InputImage];
      const edges = cannyEdges(data, width, height, { low: 20, high: 40 });
      assert.notDeepEqual(edges, data);
      const [asMap, made] = [
        await pipeline.generate({ ...request, images: [{ width, height, data: edges }] }),
        await pipeline.generate({
          ...request,
          controlType: ["canny"],
          cannyLow: [20],
          cannyHigh: [40],
        }),
      ];
      assert.deepEqual(made.latents, asMap.latents);
    }, { folder });
  }));

Deno.test({
  name:
    "Flux1Pipeline.generate() gives the image of diffusers from a folder of schnell; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: () =>
    withFolder({}, async (folder) => {
      cpSync(DEV.folder, folder, { recursive: true });
      for (const part of ["transformer", "scheduler"]) {
        cpSync(join(SCHNELL.folder, part), join(folder, part), { recursive: true });
      }
      await withPipeline(async ({ pipeline }) => {
        await checkImage(SCHNELL, "text", pipeline, requestOf(SCHNELL, SCHNELL.call("text")));
      }, { folder });
    }),
});

Deno.test("Flux1Pipeline.generate() applies LoRAs under diffusers' names and the original ones", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    const call = DEV.call("adapted");
    for (const key of ["diffusers", "original"]) {
      const path = `${DEV.folder}/adapter-${key}.safetensors`;
      const lora = await readLora(path, pipeline.adaptable);
      assert.deepEqual(lora.unmatchedKeys, []);
      for (const [mode, gate] of [["dynamic", LATENT_GATE], ["merge", MERGED_GATE]] as const) {
        const strength = call.args["strength"] as number;
        const loras = [{ key, lora, strength, mode, targets: ["transformer" as const] }];
        const request = { ...requestOf(DEV, call), loras };
        await t.step(`${key}, ${mode}`, () => checkImage(DEV, call.name, pipeline, request, gate));
      }
    }
    await t.step("T5's, beside the weights and merged", () => checkT5(pipeline));
  }, { folder: DEV.folder });
});

/** Low-rank changes of T5 alone, as kohya names them: diffusers applies none. */
async function checkT5(pipeline: Pipeline): Promise<void> {
  const { d_model: dim } = DEV.config("text_encoder_2/config.json") as { d_model: number };
  const module = "lora_te3_encoder_block_0_layer_0_SelfAttention_v";
  const factor = (shape: readonly number[]): LoraTensor => ({
    ...{ shape, dtype: "f32" },
    bytes: new Uint8Array(Float32Array.from(randomNormal(shape, shape[0]!, 0.2).data).buffer),
  });
  const lora = await readTensors({
    [`${module}.lora_down.weight`]: factor([2, dim]),
    [`${module}.lora_up.weight`]: factor([dim, 2]),
  }, pipeline.adaptable);
  const request = requestOf(DEV, DEV.call("adapted"));
  const latentsOf = async (mode: "dynamic" | "merge") => {
    const targets = ["text_encoder_2" as const];
    const loras = [{ key: "t5", lora, strength: 1, mode, targets }];
    return (await pipeline.generate({ ...request, loras })).latents;
  };
  const [beside, merged, none] = [
    await latentsOf("dynamic"),
    await latentsOf("merge"),
    (await pipeline.generate(request)).latents,
  ];
  const values = (data: Float32Array) => ({ shape: [data.length], data });
  assertClose("merged", values(merged), values(beside), MERGED_GATE);
  const { relativeL2 } = distance(values(none), values(beside));
  assert.ok(relativeL2 > 5 * MERGED_GATE, `${relativeL2}`);
}
