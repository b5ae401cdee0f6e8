/** LTX-2's latent upsamplers against the reference. */
import { strict as assert } from "node:assert";
import {
  LTX2_LATENT_UPSAMPLER_CONFIG,
  ltx2LatentUpsampler,
  upsamplerScale,
} from "../../models/autoencoders/ltx2/latent_upsampler.ts";
import { parseConfig } from "../../models/config.ts";
import { assertClose, Golden, transpose } from "../support/golden.ts";
import { checkCalls, ModelRun } from "../support/model_run.ts";

for (const name of ["rational", "half", "plain", "temporal", "both"]) {
  Deno.test(`ltx2LatentUpsampler() gives the latents of upsampler-${name}`, async (t) => {
    const golden = new Golden(`ltx2_coders/upsampler-${name}`);
    const config = parseConfig(LTX2_LATENT_UPSAMPLER_CONFIG, golden.config(), "config.json");
    using checkpoint = golden.checkpoint();
    const unused = await checkCalls(t, golden, checkpoint, async (device, weights) => {
      const { shape: [, ...shape], data } = transpose(
        golden.tensor("upsample", "z"),
        [0, 2, 3, 4, 1],
      );
      using run = await ModelRun.prepare(
        device,
        weights,
        { z: { shape, data } },
        (graph, { z }) => ({
          larger: ltx2LatentUpsampler(graph, config, weights.root, z!),
        }),
      );
      await run.run();
      const larger = await run.read("larger");
      const expected = transpose(golden.tensor("upsample", "larger"), [0, 2, 3, 4, 1]);
      const { spatial, frames } = upsamplerScale(config);
      assert.deepEqual(larger.shape, [
        ...[frames(shape[0]!), spatial * shape[1]!, spatial * shape[2]!, shape[3]!],
      ]);
      assertClose(name, larger, { shape: larger.shape, data: expected.data }, 1e-4);
    });
    // The blur is the same in all files.
    assert.deepEqual(unused.filter((tensor) => tensor !== "upsampler.blur_down.kernel"), []);
  });
}
