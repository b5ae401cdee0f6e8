/** Z-Image with ControlNets against diffusers. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { openPipeline } from "../../models/mod.ts";
import { withComposed } from "../support/composed.ts";
import { checkControlled, controlRequest } from "../support/controlled.ts";
import { Golden } from "../support/golden.ts";
import { openTestDevice } from "../support/model_run.ts";

const UNION = new Golden("controlnets/z_image");
const MODEL = new Golden("z_image/pipeline");

for (
  const [name, what] of [
    ["z_image", "whose picture is refined for itself"],
    ["z_image_shared", "that refines by its layers"],
    ["z_image_refined", "with refiners of its own"],
  ] as const
) {
  // One of them in the gate: the kernels are the same.
  const isSlow = name !== "z_image";
  Deno.test({
    name: `ZImagePipeline.generate() is steered as in diffusers by a ControlNet ${what}${
      isSlow ? "; with DENOISE_SLOW" : ""
    }`,
    ignore: isSlow && !Deno.env.has("DENOISE_SLOW"),
    fn: async (t) => await checkControlled(t, [new Golden(`controlnets/${name}`), MODEL]),
  });
}

Deno.test("ZImagePipeline.generate() ignores a control picture outside of its window", () =>
  withComposed([UNION, MODEL], async (folder) => {
    const device = await openTestDevice();
    try {
      using pipeline = await openPipeline(folder);
      await pipeline.load(device);
      const { control, controlScale: _, ...plain } = controlRequest(UNION, UNION.call("weighted"));
      const request = { ...plain, controlStart: [0.4], controlEnd: [0.5] };
      const [{ latents: without }, { latents: never }, { latents: always }] = [
        await pipeline.generate(plain),
        await pipeline.generate({ ...request, control: control! }),
        await pipeline.generate({ ...plain, control: control! }),
      ];
      assert.deepEqual(never, without);
      assert.notDeepEqual(always, without);
    } finally {
      device.destroy();
    }
  }));

Deno.test("openPipeline() refuses ControlNets that steer layers that Z-Image lacks", () =>
  withComposed([UNION, MODEL], async (folder) => {
    const path = join(folder, "controlnet", "config.json");
    const config = JSON.parse(Deno.readTextFileSync(path));
    Deno.writeTextFileSync(path, JSON.stringify({ ...config, control_layers_places: [0, 9] }));
    await assert.rejects(
      openPipeline(folder, { controlnet: join(folder, "controlnet") }),
      /it steers layer 9 by 16 channels, and the transformer has 2 layers and 16 channels/,
    );
  }));
