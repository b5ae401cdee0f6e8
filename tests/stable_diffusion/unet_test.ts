/** The UNet of Stable Diffusion against the reference. */
import { strict as assert } from "node:assert";
import { timestepEmbedding } from "../../models/blocks/embeddings.ts";
import { parseConfig } from "../../models/config.ts";
import {
  unetTextStates,
  unetTimeTables,
} from "../../models/families/stable_diffusion/conditioning.ts";
import { unet } from "../../models/families/stable_diffusion/unet.ts";
import {
  UNET_CONFIG,
  type UnetConfig,
} from "../../models/families/stable_diffusion/unet_config.ts";
import { rearrange } from "../../models/rearrange.ts";
import type { Device, Weights } from "../../runtime/mod.ts";
import { assertClose, Golden, type GoldenCall } from "../support/golden.ts";
import { checkCalls, type InputValues, ModelRun } from "../support/model_run.ts";

/** Largest error, as a part of the largest magnitude. */
const GATE = 2e-4;

function embedded(values: readonly number[], dim: number, shape: readonly number[]): InputValues {
  return { shape, data: timestepEmbedding(values, dim) };
}

async function checkCall(
  device: Device,
  golden: Golden,
  config: UnetConfig,
  weights: Weights,
  { name, args, inputs }: GoldenCall,
): Promise<void> {
  const given = (
    input: string,
  ) => (inputs.includes(input) ? golden.tensor(name, input) : undefined);
  const ids = given("ids");
  const [width, idWidth] = [config.block_out_channels[0]!, config.addition_time_embed_dim ?? 0];
  const values = {
    latents: golden.tensor(name, "latents"),
    text: golden.tensor(name, "text"),
    timesteps: embedded([args["timestep"] as number, 1], width, [2, width]),
    step: { shape: [1], data: [0], dtype: "u32" as const },
    ...(ids && {
      ids: embedded(Array.from(ids.data), idWidth, [1, ids.data.length * idWidth]),
      pooled: given("pooled")!,
    }),
    ...(inputs.includes("guidance") && { guidance: given("guidance")! }),
  };
  using run = await ModelRun.prepare(device, weights, values, (graph, tensors) => {
    const { latents, text, timesteps, step, ids, pooled, guidance } = tensors;
    const output = unet(graph, config, weights.root, {
      sample: rearrange(latents!, "1 c y x -> 1 y x c"),
      text: unetTextStates(config, weights.root, text!),
      times: unetTimeTables(config, weights.root, {
        timesteps: timesteps!,
        added: ids && { pooled: pooled!, ids },
        guidance,
      }),
      step: step!,
    });
    return { output: rearrange(output, "1 y x c -> 1 c y x") };
  });
  await run.run();
  assertClose(name, await run.read("output"), golden.tensor(name, "output"), GATE);
}

const GOLDENS = {
  sd15: "SD 1.5, whose widths fill no vector, at sizes that halve evenly and that do not",
  sdxl: "SDXL, with time ids, depths by level and linear projections",
  heads: "UNets with heads of 40, 80 and 160",
  pruned: "pruned and distilled UNets, with depths by layer and the guidance embedded",
};

for (const [folder, words] of Object.entries(GOLDENS)) {
  Deno.test(`unet() gives the reference's outputs of ${words}`, async (t) => {
    const golden = new Golden(`stable_diffusion/${folder}`);
    using checkpoint = golden.checkpoint();
    const config = parseConfig(UNET_CONFIG, golden.config(), "config.json");
    const unused = await checkCalls(
      t,
      golden,
      checkpoint,
      (device, weights, call) => checkCall(device, golden, config, weights, call),
    );
    assert.deepEqual(unused, []);
  });
}

Deno.test("UNET_CONFIG names what does not fit or is not supported", () => {
  const parse = (json: object) => parseConfig(UNET_CONFIG, json, "config.json");
  assert.deepEqual(parse({}).block_out_channels, [320, 640, 1280, 1280]);
  const cases: readonly [object, RegExp][] = [
    [
      { class_embed_type: "timestep" },
      /class_embed_type is "timestep": UNets with classes are not/,
    ],
    [{ addition_embed_type: "image" }, /addition_embed_type is "image": UNets with another/],
    [{ addition_embed_type: "text_time" }, /addition_time_embed_dim is missing: it is needed/],
    [{ block_out_channels: [320, 640] }, /down_block_types is .*it must have 2 entries/],
    [{ attention_head_dim: 5 }, /attention_head_dim is 5: 1280 channels must give heads of/],
    [{ norm_num_groups: 33 }, /block_out_channels is .*multiple of 4 and of norm_num_groups = 33/],
    [
      { transformer_layers_per_block: [1, [1, 2], 1, 1] },
      /reverse_transformer_layers_per_block is/,
    ],
    [{ cross_attention_dim: [768, 768, 768, 768] }, /cross_attention_dim is .*one width/],
    [{ up_block_types: new Array(4).fill("ResnetUpsampleBlock2D") }, /up_block_types.0 is/],
  ];
  for (const [json, message] of cases) {
    assert.throws(() => parse(json), { name: "SyntaxError", message });
  }
});
