/** CLIP's vision tower against the reference. */
import { parseConfig } from "../../models/config.ts";
import { CLIP_VISION_CONFIG, clipVision } from "../../models/image_encoders/clip_vision.ts";
import { Weights } from "../../runtime/mod.ts";
import { assertClose, Golden, transpose } from "../support/golden.ts";
import { ModelRun, openTestDevice } from "../support/model_run.ts";

for (const name of ["vision-tiny", "vision-hd80"]) {
  Deno.test(`clipVision() gives the states of ${name}`, async () => {
    const golden = new Golden(`wan/${name}`);
    const device = await openTestDevice();
    using checkpoint = golden.checkpoint();
    const weights = new Weights(checkpoint);
    const config = parseConfig(CLIP_VISION_CONFIG, golden.config(), "config.json");
    try {
      const pixels = transpose(golden.tensor("images", "pixels"), [0, 2, 3, 1]);
      using run = await ModelRun.prepare(
        device,
        weights,
        { pixels },
        (graph, { pixels }) => ({ states: clipVision(graph, config, weights.root, pixels!) }),
      );
      await run.run();
      assertClose(name, await run.read("states"), golden.tensor("images", "states"), 1e-4);
    } finally {
      weights.destroy();
      device.destroy();
    }
  });
}
