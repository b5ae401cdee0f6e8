/** Qwen3-VL's vision tower against transformers. */
import { strict as assert } from "node:assert";
import { parseConfig } from "../../models/config.ts";
import {
  QWEN3_VISION_CONFIG,
  qwen3PatchPixels,
  qwen3Vision,
  qwen3VisionLayout,
} from "../../models/image_encoders/qwen3_vision.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { checkCalls, ModelRun } from "../support/model_run.ts";

Deno.test("qwen3Vision() gives what transformers' tower shows of an image at first and after its first layers", async (t) => {
  const golden = new Golden("qwen_image_21/vision");
  using checkpoint = golden.checkpoint();
  const config = parseConfig(QWEN3_VISION_CONFIG, golden.config(), "config.json");
  const unused = await checkCalls(t, golden, checkpoint, async (device, weights, { name }) => {
    const { shape: [height, width], data } = golden.tensor(name, "image");
    const image = { width: width!, height: height!, data: Uint8Array.from(data) };
    const grid = { rows: height! / config.patch_size, columns: width! / config.patch_size };
    const pixels = qwen3PatchPixels(image, qwen3VisionLayout(grid), config.patch_size);
    const patches = { shape: [grid.rows * grid.columns, config.patch_size ** 2 * 3], data: pixels };
    using run = await ModelRun.prepare(device, weights, { patches }, (graph, { patches }) => {
      const [tokens, ...others] = qwen3Vision(graph, config, weights.root, patches!, grid);
      return { tokens: tokens!, deepstack0: others[0]!, deepstack1: others[1]! };
    });
    await run.run();
    for (const output of ["tokens", "deepstack0", "deepstack1"]) {
      const actual = await run.read(output);
      assertClose(`${name} ${output}`, actual, golden.tensor(name, output), 2e-4);
    }
  });
  assert.deepEqual(unused, []);
});
