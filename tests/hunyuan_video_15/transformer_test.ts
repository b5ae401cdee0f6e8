/** HunyuanVideo 1.5's transformer against the reference. */
import assert from "node:assert/strict";
import { parseConfig } from "../../models/config.ts";
import { HUNYUAN_VIDEO_15_TRANSFORMER_CONFIG } from "../../models/families/hunyuan_video_15/config.ts";
import {
  glyphTokens,
  imageTokens,
  promptStates,
} from "../../models/families/hunyuan_video_15/context.ts";
import { modulationTables } from "../../models/families/hunyuan_video_15/modulation.ts";
import { hunyuanVideo15Transformer } from "../../models/families/hunyuan_video_15/transformer.ts";
import { rearrange } from "../../models/rearrange.ts";
import { slice } from "../../runtime/mod.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { checkCalls, ModelRun } from "../support/model_run.ts";

for (const name of ["tiny", "heads"]) {
  Deno.test({
    name: `hunyuanVideo15Transformer() gives the outputs of hunyuan_video_15/${name}${
      name === "tiny" ? ", whose widths fill no vector" : "; with DENOISE_SLOW"
    }`,
    ignore: name === "heads" && !Deno.env.has("DENOISE_SLOW"),
    fn: async (t) => {
      const golden = new Golden(`hunyuan_video_15/${name}`);
      using checkpoint = golden.checkpoint();
      const schema = HUNYUAN_VIDEO_15_TRANSFORMER_CONFIG;
      const config = parseConfig(schema, golden.config(), "config.json");
      const unused = await checkCalls(t, golden, checkpoint, async (device, weights, call) => {
        const args = call.args as { time: number; target: number | null };
        const inputs = Object.fromEntries(
          call.inputs.map((name) => [name, golden.tensor(call.name, name)]),
        );
        const [, , frames, height, width] = inputs["latents"]!.shape as [...number[]] & {
          length: 5;
        };
        using run = await ModelRun.prepare(device, weights, inputs, (graph, given) => {
          const { root } = weights;
          const { latents, text, glyphs, image } = given;
          const tokens = rearrange(latents!, "1 c f y x -> 1 (f y x) c");
          // The second row of the tables, to see that it is that of its step.
          const targets = args.target === null ? undefined : [0, args.target];
          const tables = modulationTables(graph, config, root, [500, args.time], targets);
          const output = hunyuanVideo15Transformer(graph, config, root, {
            ...promptStates(config, root, text!),
            others: [
              ...image ? [imageTokens(config, root, image)] : [],
              ...glyphs ? [glyphTokens(config, root, glyphs)] : [],
            ],
            sample: slice(tokens, 2, 0, config.out_channels),
            given: slice(tokens, 2, config.out_channels, config.in_channels),
            grid: { frames: frames!, height: height!, width: width! },
            ...tables,
            step: graph.constant("step", [1], "u32", [1]),
          });
          const sizes = { f: frames!, y: height! };
          return { output: rearrange(output, "1 (f y x) c -> 1 c f y x", sizes) };
        });
        await run.run();
        assertClose(call.name, await run.read("output"), golden.tensor(call.name, "output"), 2e-4);
      });
      assert.deepEqual(unused, []);
    },
  });
}

Deno.test("HUNYUAN_VIDEO_15_TRANSFORMER_CONFIG names what does not fit", () => {
  const parse = (json: object) =>
    parseConfig(HUNYUAN_VIDEO_15_TRANSFORMER_CONFIG, json, "config.json");
  assert.equal(parse({}).num_layers, 54);
  const cases: readonly [object, RegExp][] = [
    [{ rope_axes_dim: [16, 56, 48] }, /its sum must be attention_head_dim = 128/],
    [{ in_channels: 64 }, /a sample, an image and a mask of it have 65/],
    [{ patch_size: 2 }, /patch_size is 2: only tokens of one latent each are supported/],
    [{ patch_size_t: 2 }, /patch_size_t is 2/],
    [{ mlp_ratio: 3 }, /four times the width/],
    [{ qk_norm: "layer_norm" }, /qk_norm is "layer_norm"/],
    [{ task_type: "v2v" }, /task_type is "v2v"/],
  ];
  for (const [json, message] of cases) {
    assert.throws(() => parse(json), { name: "SyntaxError", message });
  }
});
