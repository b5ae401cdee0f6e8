/**
 * How LoRAs change what Z-Image makes, in every mode and component. `pipeline_test.ts` has the reference's result in
 * either mode, what LoRAs compute is tested beside `models/lora`.
 */
import assert from "node:assert/strict";
import { loraOf, randomTensor } from "../support/lora_reference.ts";
import { assertClose, distance, Golden, type Values } from "../support/golden.ts";
import type { AppliedLora, LoraComponent, ModuleChange } from "../../models/lora/types.ts";
import { openPipeline, type Pipeline, type PipelineRequest } from "../../models/mod.ts";
import { openTestDevice } from "../support/model_run.ts";

const REQUEST: PipelineRequest = {
  task: "T2I",
  prompt: "a red cat",
  negativePrompt: "",
  width: 32,
  height: 24,
  numFrames: 1,
  seed: 5,
  numInferenceSteps: 2,
  guidanceScale: 0,
};

/** Low-rank changes of all linear layers that a pattern matches. */
function lowRank(
  { adaptable }: Pipeline,
  target: LoraComponent,
  matches: RegExp,
  mode: AppliedLora["mode"],
): AppliedLora {
  const { modules } = adaptable.find((component) => component.target === target)!;
  const changes = modules.filter(({ name, shape }) => shape.length === 2 && matches.test(name))
    .map(({ name, shape: [rows, columns] }, i): ModuleChange => ({
      target,
      module: name,
      weight: [{
        kind: "low-rank",
        scale: 1,
        down: randomTensor([4, columns!], i),
        up: randomTensor([rows!, 4], i + 100, { scale: 0.05 }),
      }],
    }));
  assert.ok(changes.length > 0, `${matches} matches modules`);
  const lora = loraOf(...changes);
  return { key: `${target} ${matches}`, lora, strength: 1, targets: [target], mode };
}

Deno.test({
  name:
    "ZImagePipeline.generate() gives with LoRAs beside the weights what it gives merged, and the base afterwards; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: async () => {
    const golden = new Golden("z_image/pipeline");
    const device = await openTestDevice();
    try {
      using pipeline = await openPipeline(golden.folder);
      await pipeline.load(device);
      assert.deepEqual(
        pipeline.adaptable.map(({ target, family }) => [target, family]),
        [["transformer", "Z-Image"], ["text_encoder", "Qwen3"]],
      );
      const latents = async (...loras: AppliedLora[]): Promise<Values> => {
        const { latents } = await pipeline.generate({ ...REQUEST, loras });
        return { shape: [latents.length], data: latents };
      };
      const base = await latents();
      for (
        const [target, matches] of [
          ["transformer", /^layers\.\d+\.(attention|feed_forward)/],
          ["transformer", /to_v$|adaLN_modulation/],
          ["transformer", /^context_refiner|^cap_embedder/],
          ["text_encoder", /./],
        ] as const
      ) {
        const name = `${target} ${matches}`;
        const dynamic = await latents(lowRank(pipeline, target, matches, "dynamic"));
        assert.ok(distance(dynamic, base).relativeL2 > 1e-3, `${name} changes something`);
        const merged = await latents(lowRank(pipeline, target, matches, "merge"));
        assertClose(name, merged, dynamic, 1e-2);
        assert.deepEqual(await latents(), base, name);
      }
    } finally {
      device.destroy();
    }
  },
});
