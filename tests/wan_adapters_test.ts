/** Adapters of every dialect in Wan against the reference: from the file to what the model gives. */
import { strict as assert } from "node:assert";
import { AdaptedComponent } from "../models/adapters/adapted_component.ts";
import { needsWriting } from "../models/adapters/low_rank_form.ts";
import { ModelAdapters } from "../models/adapters/model_adapters.ts";
import type { AppliedAdapter } from "../models/adapters/types.ts";
import { parseConfig } from "../models/config.ts";
import { openPipeline } from "../models/mod.ts";
import { WAN_TRANSFORMER_CONFIG } from "../models/families/wan/config.ts";
import { UMT5_CONFIG, umt5Embeddings, umt5Encoder } from "../models/text_encoders/umt5.ts";
import type { Device } from "../runtime/mod.ts";
import { assertClose, Golden, type GoldenCall, type Values } from "./golden.ts";
import {
  adapterCount,
  LORA_GOLDEN,
  type LoraBase,
  openLoraBase,
  readUsed,
  type UsedAdapter,
} from "./lora_golden.ts";
import { ModelRun, openTestDevice } from "./model_run.ts";
import { psnr } from "./pixels.ts";
import { contextOf, timestepsOf, velocityGraph } from "./wan_velocity.ts";

/** Largest error of what branches give, as a part of the largest magnitude. */
const GATE = 1e-5;
/** What is written into weights is rounded to their type, f16 in all of these models. */
const WRITTEN_GATE = 2e-3;
/** Of latents after three steps, and of their pixels in decibels: beside the weights, and written. */
const LATENT_GATES = { dynamic: 1e-3, merge: 1e-2 };
const MIN_PSNR = { dynamic: 50, merge: 35 };
const MODES = ["dynamic", "merge"] as const;

/** What a call's model gives with what its weights are adapted by now. */
function resultOf(device: Device, base: LoraBase, call: GoldenCall): Promise<Values> {
  return base.target === "transformer"
    ? velocityOf(device, base, call)
    : statesOf(device, base, call);
}

async function velocityOf(
  device: Device,
  { weights }: LoraBase,
  call: GoldenCall,
): Promise<Values> {
  const path = `../${call.args.base}/config.json`;
  const config = parseConfig(WAN_TRANSFORMER_CONFIG, LORA_GOLDEN.config(path), path);
  const inputs = {
    latents: LORA_GOLDEN.tensor(call.name, "hidden_states"),
    ...timestepsOf(LORA_GOLDEN, call, config),
    ...contextOf(LORA_GOLDEN, call, "collapsed"),
  };
  using run = await ModelRun.prepare(device, weights, inputs, (graph, given) => ({
    result: velocityGraph(graph, config, weights, given),
  }));
  await run.run();
  return await run.read("result");
}

async function statesOf(device: Device, { weights }: LoraBase, call: GoldenCall): Promise<Values> {
  const path = `../${call.args.base}/config.json`;
  const config = parseConfig(UMT5_CONFIG, LORA_GOLDEN.config(path), path);
  const ids = LORA_GOLDEN.tensor(call.name, "input_ids");
  const lengths = call.args["lengths"] as number[];
  const inputs = {
    embeddings: {
      shape: [...ids.shape, config.d_model],
      data: umt5Embeddings(config, weights, Array.from(ids.data)),
    },
    lengths: { shape: [lengths.length], data: lengths, dtype: "u32" as const },
  };
  using run = await ModelRun.prepare(device, weights, inputs, (graph, given) => ({
    result: umt5Encoder(graph, config, weights.root, {
      embeddings: given["embeddings"]!,
      lengths: given["lengths"]!,
    }),
  }));
  await run.run();
  return await run.read("result");
}

function appliedOf(used: readonly UsedAdapter[], mode: AppliedAdapter["mode"]): AppliedAdapter[] {
  const targets = ["transformer", "text_encoder"] as const;
  return used.map(({ path, adapter, strength }) => ({
    key: path,
    adapter,
    strength,
    targets,
    mode,
  }));
}

const CALLS = LORA_GOLDEN.calls.filter((call) =>
  adapterCount(call) > 0 && call.args.base && !call.name.startsWith("pipeline")
);

for (const [base, calls] of Map.groupBy(CALLS, ({ args }) => args.base as string)) {
  Deno.test(`adapters give with ${base} what they give in the reference, and the base bit for bit afterwards`, async (t) => {
    const device = await openTestDevice();
    using opened = openLoraBase(calls[0]!);
    const { weights, target, layouts } = opened;
    const component = new AdaptedComponent(weights, { target, family: "Wan", layouts });
    const adapters = new ModelAdapters([component], () => {});
    try {
      const before = await resultOf(device, opened, calls[0]!);
      for (const call of calls) {
        const used = await readUsed(call, [component.info]);
        for (const mode of MODES) {
          await t.step(`${call.name}, ${mode}`, async () => {
            const applied = appliedOf(used, mode);
            await adapters.apply(applied, device);
            const [output] = call.outputs;
            const isWritten = adapters.adaptable.some(({ modules }) =>
              applied.some(({ mode, adapter: { changes } }) =>
                changes.some((change) => {
                  const module = modules.find(({ name }) => name === change.module)!;
                  return needsWriting(change, module) || change.bias !== undefined ||
                    (mode === "merge" && !module.isQuantised);
                })
              )
            );
            assertClose(
              `${call.name} ${mode}`,
              await resultOf(device, opened, call),
              LORA_GOLDEN.tensor(call.name, output!),
              isWritten ? WRITTEN_GATE : GATE,
            );
          });
        }
      }
      await adapters.apply([], device);
      assert.deepEqual(await resultOf(device, opened, calls[0]!), before);
    } finally {
      adapters.destroy();
      weights.destroy();
      device.destroy();
    }
  });
}

for (const call of LORA_GOLDEN.calls.filter(({ name }) => name.startsWith("pipeline"))) {
  Deno.test(`WanPipeline.generate() gives the frames of ${call.args.reference} with adapters: ${call.name}`, async (t) => {
    const device = await openTestDevice();
    using pipeline = await openPipeline(new Golden(call.args.base as string).folder);
    try {
      await pipeline.load(device);
      const used = await readUsed(call, pipeline.info.adaptable);
      for (const { adapter } of used) assert.deepEqual(adapter.unmatchedKeys, []);
      for (const mode of MODES) {
        await t.step(mode, async () => {
          const { frames, latents } = await pipeline.generate({
            task: "T2I",
            prompt: call.args["prompt"] as string,
            negativePrompt: call.args["negative_prompt"] as string,
            width: call.args["width"] as number,
            height: call.args["height"] as number,
            numFrames: 1,
            seed: call.args["seed"] as number,
            numInferenceSteps: call.args["num_inference_steps"] as number,
            guidanceScale: call.args["guidance_scale"] as number,
            maxSequenceLength: call.args["max_sequence_length"] as number,
            adapters: appliedOf(used, mode),
          });
          const expected = LORA_GOLDEN.tensor(call.name, "latents");
          const { shape } = expected;
          assertClose("latents", { shape, data: latents }, expected, LATENT_GATES[mode]);
          const decibels = psnr(frames[0]!, LORA_GOLDEN.tensor(call.name, "frames").data);
          assert.ok(decibels > MIN_PSNR[mode], `PSNR is ${decibels.toFixed(1)} dB`);
        });
      }
    } finally {
      device.destroy();
    }
  });
}
