/** LoRAs of every dialect in Wan against the reference: from the file to what the model gives. */
import { strict as assert } from "node:assert";
import { AdaptedComponent } from "../../models/lora/adapted_component.ts";
import { needsWriting } from "../../models/lora/low_rank_form.ts";
import { DeviceLoras } from "../../models/lora/device_loras.ts";
import { parseConfig } from "../../models/config.ts";
import { WAN_TRANSFORMER_CONFIG } from "../../models/families/wan/config.ts";
import { UMT5_CONFIG, umt5Embeddings, umt5Encoder } from "../../models/text_encoders/umt5.ts";
import type { Device } from "../../runtime/mod.ts";
import { assertClose, type GoldenCall, type Values } from "../support/golden.ts";
import {
  appliedOf,
  LORA_GOLDEN,
  type LoraBase,
  loraCount,
  openLoraBase,
  readUsed,
} from "./golden.ts";
import { ModelRun, openTestDevice } from "../support/model_run.ts";
import { contextOf, timestepsOf, velocityGraph } from "../wan/velocity.ts";

/** Largest error of what branches give, as a part of the largest magnitude. */
const GATE = 1e-5;
/** What is written into weights is rounded to their type, f16 in all of these models. */
const WRITTEN_GATE = 2e-3;
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

const CALLS = LORA_GOLDEN.calls.filter((call) =>
  loraCount(call) > 0 && call.args.base && !call.name.startsWith("pipeline")
);

for (const [base, calls] of Map.groupBy(CALLS, ({ args }) => args.base as string)) {
  Deno.test(`LoRAs give with ${base} what they give in the reference, and the base bit for bit afterwards`, async (t) => {
    const device = await openTestDevice();
    using opened = openLoraBase(calls[0]!);
    const { weights, target, layouts } = opened;
    const component = new AdaptedComponent(weights, { target, family: "Wan", layouts });
    const loras = new DeviceLoras([component], () => {});
    try {
      const before = await resultOf(device, opened, calls[0]!);
      for (const call of calls) {
        const used = await readUsed(call, [component.info]);
        for (const mode of MODES) {
          await t.step(`${call.name}, ${mode}`, async () => {
            const applied = appliedOf(used, mode);
            await loras.apply(applied, device);
            const [output] = call.outputs;
            const isWritten = loras.adaptable.some(({ modules }) =>
              applied.some(({ mode, lora: { changes } }) =>
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
      await loras.apply([], device);
      assert.deepEqual(await resultOf(device, opened, calls[0]!), before);
    } finally {
      loras.destroy();
      weights.destroy();
      device.destroy();
    }
  });
}
