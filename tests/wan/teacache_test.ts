/** Which steps of Wan 2.1 the quality high spares. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { openPipeline } from "../../models/mod.ts";
import { WAN_TRANSFORMER_CONFIG } from "../../models/families/wan/config.ts";
import { TIMESTEP_ROWS } from "../../models/families/wan/modulation.ts";
import { sparedSteps, teaCacheOf } from "../../models/families/wan/teacache.ts";
import { Golden } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { openTestDevice } from "../support/model_run.ts";
import { withOtherComponent } from "../support/seeded_weights.ts";

Deno.test("teaCacheOf() knows the checkpoints of Wan 2.1 that were fitted, and no others", () => {
  const first = (config: Record<string, unknown>, pixels = 832 * 480) =>
    teaCacheOf(WAN_TRANSFORMER_CONFIG.parse(config), pixels)?.coefficients[0];
  assert.equal(first({ num_attention_heads: 12, num_layers: 30 }), -5.21862437e4);
  assert.equal(first({}), -3.03318725e5);
  assert.equal(first({ in_channels: 36, image_dim: 1280 }), 2.57151496e5);
  assert.equal(first({ in_channels: 36, image_dim: 1280 }, 1280 * 720), 8.1070546e3);
  // I2V of Wan 2.2 sees no image, TI2V is 3072 wide.
  assert.equal(first({ in_channels: 36 }), undefined);
  assert.equal(first({ num_attention_heads: 24, in_channels: 48 }), undefined);
});

Deno.test("sparedSteps() sums what the polynomial makes of the change since the last computed step", () => {
  const [dim, steps] = [4, 12];
  // All values of a step are equal, 5 % above those of the step before; the last row of a step does not count.
  const rows = Float32Array.from(
    { length: steps * TIMESTEP_ROWS * dim },
    (_, i) => {
      const [step, row] = [
        Math.floor(i / (TIMESTEP_ROWS * dim)),
        Math.floor(i / dim) % TIMESTEP_ROWS,
      ];
      return row === TIMESTEP_ROWS - 1 ? i : 1.05 ** step;
    },
  );
  // 2 · 0.05² + 0.05 + 0.01 = 0.065 a step: the third one reaches 0.15.
  const cache = { coefficients: [2, 1, 0.01], threshold: 0.15 };
  assert.deepEqual(sparedSteps(cache, rows, steps, dim), [5, 6, 8, 9]);
  assert.deepEqual(sparedSteps({ ...cache, threshold: 0.01 }, rows, steps, dim), []);
  assert.deepEqual(sparedSteps({ ...cache, threshold: 9 }, rows, steps, dim), [5, 6, 7, 8, 9, 10]);
  assert.deepEqual(sparedSteps({ ...cache, threshold: 9 }, rows, 6, dim), []);
});

Deno.test({
  name: "WanPipeline.generate() spares steps of a transformer as wide as Wan 2.1 1.3B (slow)",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  async fn() {
    const golden = new Golden("wan/pipeline-t2v");
    const source = fileURLToPath(new URL("../goldens/wan/pipeline-t2v", import.meta.url));
    const width = 1536;
    const folder = withOtherComponent(source, "transformer", {
      config: { num_attention_heads: width / 32, num_layers: 1 },
      shape: (name, shape) =>
        name.startsWith("blocks.1.") ? undefined : shape.map((size, axis) => {
          const isWidth = size % 64 === 0 && size !== 256 &&
            !(name.startsWith("proj_out") && axis === 0) &&
            !(name.endsWith("text_embedder.linear_1.weight") && axis === 1);
          return isWidth ? size / 64 * width : size;
        }),
    });
    const device = await openTestDevice();
    try {
      using pipeline = await openPipeline(folder);
      await pipeline.load(device);
      const request = { ...textRequest(golden.calls[0]!), numInferenceSteps: 30 };
      const exact = (await pipeline.generate({ ...request, quality: "exact" })).latents;
      const { latents } = await pipeline.generate({ ...request, quality: "high" });
      // Weights that were drawn say nothing of how close these are.
      assert.notDeepEqual(latents, exact);
      assert.ok(latents.every(Number.isFinite));
    } finally {
      device.destroy();
    }
  },
});
