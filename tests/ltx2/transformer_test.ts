/** The LTX-2 transformer against the reference. */
import assert from "node:assert/strict";
import { parseConfig } from "../../models/config.ts";
import {
  LTX2_TRANSFORMER_CONFIG,
  type Ltx2TransformerConfig,
} from "../../models/families/ltx2/config.ts";
import { ltx2Times } from "../../models/families/ltx2/modulation.ts";
import { ltx2Positions, POSITIONS } from "../../models/families/ltx2/positions.ts";
import { ltx2Context, ltx2Transformer } from "../../models/families/ltx2/transformer.ts";
import type { Device, Tensor, Weights } from "../../runtime/mod.ts";
import { assertClose, Golden, type GoldenCall, type Values } from "../support/golden.ts";
import { checkCalls, type InputValues, ModelRun } from "../support/model_run.ts";

const GATE = 2e-4;
const isSlow = Deno.env.has("DENOISE_SLOW");

async function checkCall(
  device: Device,
  golden: Golden,
  config: Ltx2TransformerConfig,
  weights: Weights,
  { name, args }: GoldenCall,
): Promise<void> {
  const [time, fps, clean] = ["time", "fps", "clean"].map((key) => args[key] as number);
  const [frames, rows, columns] = args["grid"] as [number, number, number];
  const given = (input: string) => golden.tensor(name, input);
  const sound = given("audio").shape[1]!;
  const tables = ltx2Positions(config, { frames, rows, columns }, sound, fps!);
  const inputs: Record<string, InputValues> = {
    ...Object.fromEntries(["video", "audio", "text", "audio_text"].map((key) => [key, given(key)])),
    // The second row of the tables, to see that a step finds its own.
    step: { shape: [1], data: [1], dtype: "u32" },
  };
  for (const kind of POSITIONS) {
    for (const table of ["cos", "sin"] as const) {
      const data = tables[kind][table];
      const tokens = kind.startsWith("video") ? frames * rows * columns : sound;
      inputs[`${kind} ${table}`] = { shape: [tokens, data.length / tokens], data };
    }
  }
  if (clean! > 0) {
    const tokens = frames * rows * columns;
    inputs["videoSteps"] = { shape: [2], data: [1, 2], dtype: "u32" };
    const data = Array.from({ length: tokens }, (_, i) => Number(i < clean!));
    inputs["tokenTimes"] = { shape: [1, tokens], data, dtype: "u32" };
  }
  using run = await ModelRun.prepare(device, weights, inputs, (graph, tensors) => {
    const input = (key: string): Tensor => tensors[key]!;
    const rotation = (kind: string) => ({ cos: input(`${kind} cos`), sin: input(`${kind} sin`) });
    const { root } = weights;
    const outputs = ltx2Transformer(graph, config, root, {
      sample: { video: input("video"), audio: input("audio") },
      context: ltx2Context(config, root, { video: input("text"), audio: input("audio_text") }),
      positions: {
        video: rotation("video"),
        audio: rotation("audio"),
        videoCross: rotation("videoCross"),
        audioCross: rotation("audioCross"),
      },
      times: ltx2Times(graph, config, root, [500, time!], { more: clean! > 0 ? [0] : [] }),
      step: input("step"),
      ...(clean! > 0 && { videoSteps: input("videoSteps"), tokenTimes: input("tokenTimes") }),
      perturbed: args["perturbed"] as number[],
      isIsolated: args["isolated"] as boolean,
    });
    return { video_output: outputs.video, audio_output: outputs.audio };
  });
  await run.run();
  for (const output of ["video_output", "audio_output"]) {
    const got: Values = await run.read(output);
    assertClose(`${name} ${output}`, got, golden.tensor(name, output), GATE);
  }
}

function checkGolden(title: string, name: string, ignore = false): void {
  Deno.test({
    name: title,
    ignore,
    fn: async (t) => {
      const golden = new Golden(name);
      using checkpoint = golden.checkpoint();
      const config = parseConfig(LTX2_TRANSFORMER_CONFIG, golden.config(), "config.json");
      const unused = await checkCalls(
        t,
        golden,
        checkpoint,
        (device, weights, call) => checkCall(device, golden, config, weights, call),
      );
      assert.deepEqual(unused, []);
    },
  });
}

checkGolden(
  "ltx2Transformer() gives both outputs of ltx2/tiny, whose widths fill no vector",
  "ltx2/tiny",
);
checkGolden(
  "ltx2Transformer() gives those of LTX-2.3, with a clean first frame, without attention in a block, and each modality alone",
  "ltx2/tiny23",
);
checkGolden("ltx2Transformer() gives those of a prompt that no timestep changes", "ltx2/tiny25");
checkGolden("ltx2Transformer() gives those at production head sizes", "ltx2/wide");
checkGolden(
  "ltx2Transformer() gives those of a layer at its full width; with DENOISE_SLOW",
  "ltx2/full",
  !isSlow,
);

Deno.test("LTX2_TRANSFORMER_CONFIG names what does not fit", () => {
  const parse = (json: object) => parseConfig(LTX2_TRANSFORMER_CONFIG, json, "config.json");
  assert.equal(parse({}).num_layers, 48);
  const cases: readonly [object, RegExp][] = [
    [{ audio_in_channels: 64 }, /audio_in_channels is 64: it must be in_channels = 128/],
    [
      { audio_attention_head_dim: 32 },
      /audio_cross_attention_dim .*must be the width of the sound's tokens = 1024/,
    ],
    [{ cross_attn_mod: true }, /audio_cross_attn_mod .*it must be cross_attn_mod = true/],
    [{ patch_size: 2 }, /patch_size is 2: only patches of one latent are supported/],
    [{ rope_double_precision: false }, /frequencies in single precision are not supported/],
    [{ norm_elementwise_affine: true }, /norms with weights are not supported/],
    [{ use_keyframes_abs_pos_embedding: true }, /as LTX-2.5 has them, are not supported/],
    [{ rope_type: "split", num_attention_heads: 16 }, /num_attention_heads is 16: .*as many heads/],
  ];
  for (const [json, message] of cases) {
    assert.throws(() => parse(json), { name: "SyntaxError", message });
  }
});
