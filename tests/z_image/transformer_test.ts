/** The Z-Image transformer against the reference. */
import { strict as assert } from "node:assert";
import { parseConfig } from "../../models/config.ts";
import { timestepEmbedding } from "../../models/blocks/embeddings.ts";
import {
  Z_IMAGE_TRANSFORMER_CONFIG,
  type ZImageTransformerConfig,
} from "../../models/families/z_image/config.ts";
import { modulationTable, TIMESTEP_FREQUENCIES } from "../../models/families/z_image/modulation.ts";
import { paddedCount } from "../../models/families/z_image/positions.ts";
import { zImageContext, zImageTransformer } from "../../models/families/z_image/transformer.ts";
import { rearrange } from "../../models/rearrange.ts";
import type { Checkpoint, Device, Weights } from "../../runtime/mod.ts";
import { assertClose, Golden, type GoldenCall, type Values } from "../support/golden.ts";
import { checkCalls, ModelRun } from "../support/model_run.ts";

const GATE = 2e-4;

/** A caption filled up with zeros, and which rows are its own. */
function padded({ shape, data }: Values): { caption: Values; mask: Values } {
  const [tokens, channels] = shape as [number, number];
  const rows = paddedCount(tokens);
  const filled = new Float32Array(rows * channels);
  filled.set(Array.from(data));
  return {
    caption: { shape: [1, rows, channels], data: filled },
    mask: { shape: [1, rows, 1], data: Array.from({ length: rows }, (_, i) => Number(i < tokens)) },
  };
}

async function checkCall(
  device: Device,
  golden: Golden,
  config: ZImageTransformerConfig,
  weights: Weights,
  { name, args, outputs }: GoldenCall,
): Promise<void> {
  const { shape: size, data } = golden.tensor(name, "latents");
  const [, height, width] = size as [number, number, number];
  const time = timestepEmbedding(
    [args["timestep"] as number * config.t_scale],
    TIMESTEP_FREQUENCIES,
  );
  for (const [i, output] of outputs.entries()) {
    const { caption, mask } = padded(golden.tensor(name, `caption${i}`));
    const inputs = {
      latents: { shape: [1, ...size], data },
      caption,
      mask,
      time: { shape: [1, time.length], data: time },
    };
    using run = await ModelRun.prepare(device, weights, inputs, (graph, tensors) => {
      const { latents, caption, mask, time } = tensors;
      const result = zImageTransformer(graph, config, weights.root, {
        context: zImageContext(graph, config, weights.root, caption!, mask!),
        sample: rearrange(latents!, "1 c (y i) (x j) -> 1 (y x) (i j c)", { i: 2, j: 2 }),
        grid: { rows: height / 2, columns: width / 2 },
        modulation: modulationTable(config, weights.root, time!),
      });
      const sizes = { y: height / 2, i: 2, j: 2 };
      return { result: rearrange(result, "1 (y x) (i j c) -> 1 c (y i) (x j)", sizes) };
    });
    await run.run();
    const result = await run.read("result");
    assertClose(
      `${name} ${output}`,
      { ...result, shape: result.shape.slice(1) },
      golden.tensor(name, output),
      GATE,
    );
  }
}

async function checkGolden(
  t: Deno.TestContext,
  golden: Golden,
  checkpoint: Checkpoint,
): Promise<void> {
  const config = parseConfig(Z_IMAGE_TRANSFORMER_CONFIG, golden.config(), "config.json");
  const unused = await checkCalls(
    t,
    golden,
    checkpoint,
    (device, weights, call) => checkCall(device, golden, config, weights, call),
  );
  assert.deepEqual(unused, []);
}

Deno.test("zImageTransformer() gives the outputs of z_image/tiny, whose widths fill no vector, padded and not", async (t) => {
  const golden = new Golden("z_image/tiny");
  using checkpoint = golden.checkpoint();
  await checkGolden(t, golden, checkpoint);
});

Deno.test({
  name: "zImageTransformer() gives the outputs at widths of real models; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: async (t) => {
    const golden = new Golden("z_image/wide");
    using checkpoint = golden.checkpoint();
    await checkGolden(t, golden, checkpoint);
  },
});

Deno.test("Z_IMAGE_TRANSFORMER_CONFIG names what does not fit or is not supported", () => {
  const parse = (json: object) => parseConfig(Z_IMAGE_TRANSFORMER_CONFIG, json, "config.json");
  assert.equal(parse({}).dim, 3840);
  const cases: readonly [object, RegExp][] = [
    [{ siglip_feat_dim: 1152 }, /siglip_feat_dim is 1152: Z-Image-Omni/],
    [{ n_kv_heads: 15 }, /n_kv_heads is 15: it must be n_heads = 30/],
    [{ axes_dims: [32, 48, 32] }, /axes_dims is .*its sum must be dim \/ n_heads = 128/],
    [{ n_heads: 7 }, /n_heads is 7: dim = 3840 must give heads of a multiple of 4/],
    [{ all_patch_size: [4] }, /all_patch_size is .*it must have 2/],
    [{ qk_norm: false }, /qk_norm is false: models without norms/],
  ];
  for (const [json, message] of cases) {
    assert.throws(() => parse(json), { name: "SyntaxError", message });
  }
});
