/** The FLUX.2 transformer against the reference. */
import assert from "node:assert/strict";
import { hiddenSize, parseConfig } from "../../models/config.ts";
import { timestepEmbedding } from "../../models/blocks/embeddings.ts";
import {
  FLUX2_TRANSFORMER_CONFIG,
  type Flux2TransformerConfig,
} from "../../models/families/flux2/config.ts";
import { modulationTable } from "../../models/families/flux2/modulation.ts";
import { flux2Context, flux2Transformer } from "../../models/families/flux2/transformer.ts";
import type { Checkpoint, Device, DeviceOptions, Weights } from "../../runtime/mod.ts";
import { assertClose, Golden, type GoldenCall } from "../support/golden.ts";
import { checkCalls, type InputValues, ModelRun } from "../support/model_run.ts";

/** Largest error of the velocity, as a part of its largest magnitude. */
const GATE = 1e-4;
/** Largest error where factors are rounded to f16. */
const HALF_GATE = 1e-3;

async function checkCall(
  device: Device,
  golden: Golden,
  config: Flux2TransformerConfig,
  weights: Weights,
  call: GoldenCall,
): Promise<void> {
  const args = call.args as {
    grid: [number, number];
    reference_grids: [number, number][];
    timestep: number;
    guidance: number | null;
  };
  const embedding = (value: number): InputValues => ({
    shape: [1, config.timestep_guidance_channels],
    data: timestepEmbedding([Math.fround(value) * 1000], config.timestep_guidance_channels),
  });
  const inputs: Record<string, InputValues> = { timestep: embedding(args.timestep) };
  for (const name of call.inputs) inputs[name] = golden.tensor(call.name, name);
  if (args.guidance !== null) inputs["guidance"] = embedding(args.guidance);
  const grid = ([rows, columns]: [number, number]) => ({ rows, columns });
  using run = await ModelRun.prepare(device, weights, inputs, (graph, given) => {
    const dim = hiddenSize(config);
    const { timestep, guidance, context, sample, references } = given;
    return {
      velocity: flux2Transformer(graph, config, weights.root, {
        context: flux2Context(config, weights.root, context!),
        sample: sample!,
        grid: grid(args.grid),
        references,
        referenceGrids: args.reference_grids.map(grid),
        modulation: modulationTable(weights.root, timestep!, dim, guidance),
      }),
    };
  });
  await run.run();
  const expected = golden.tensor(call.name, "velocity");
  const gate = device.target.operands === "f32" ? GATE : HALF_GATE;
  assertClose(call.name, await run.read("velocity"), expected, gate);
}

async function checkGolden(
  t: Deno.TestContext,
  golden: Golden,
  checkpoint: Checkpoint,
  options: DeviceOptions = {},
): Promise<void> {
  const config = parseConfig(FLUX2_TRANSFORMER_CONFIG, golden.config(), "config.json");
  const unused = await checkCalls(
    t,
    golden,
    checkpoint,
    (device, weights, call) => checkCall(device, golden, config, weights, call),
    golden.calls,
    options,
  );
  assert.deepEqual(unused, []);
}

Deno.test("flux2Transformer() gives the velocity of flux2/transformer-tiny", async (t) => {
  const golden = new Golden("flux2/transformer-tiny");
  using checkpoint = golden.checkpoint();
  await checkGolden(t, golden, checkpoint);
});

Deno.test("flux2Transformer() gives the reference's velocity with heads as real models have them", async (t) => {
  const golden = new Golden("flux2/transformer-hd128");
  using checkpoint = golden.checkpoint();
  await checkGolden(t, golden, checkpoint);
});

for (const operands of ["f32", "f16"] as const) {
  Deno.test({
    name:
      `flux2Transformer() gives the reference's velocity with kernels of GPUs, factors ${operands}; with DENOISE_SLOW`,
    ignore: !Deno.env.has("DENOISE_SLOW"),
    fn: async (t) => {
      const golden = new Golden("flux2/transformer-hd128");
      using checkpoint = golden.checkpoint();
      await checkGolden(t, golden, checkpoint, { schedule: "gpu", operands });
    },
  });
}
