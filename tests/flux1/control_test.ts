/** FLUX.1 with ControlNets against diffusers. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { openPipeline } from "../../models/mod.ts";
import { checkControlled, controlRequest, withControlNet } from "../controlled.ts";
import { Golden } from "../golden.ts";

const UNION = new Golden("controlnets/flux1");
const WIDE = new Golden("controlnets/flux1_wide");
const [DEV, SCHNELL] = [new Golden("flux1/dev"), new Golden("flux1/schnell")];

Deno.test("Flux1Pipeline.generate() is steered by a Union ControlNet as in diffusers: by mode, weight and window, guided, from an image and by a mask", (t) =>
  checkControlled(t, [UNION, DEV]));

Deno.test({
  name:
    "Flux1Pipeline.generate() is steered by a ControlNet without modes, with heads of 128; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: (t) => checkControlled(t, [WIDE, SCHNELL, DEV]),
});

Deno.test("openPipeline() refuses ControlNets of other sizes, of other families, and beside Kontext", async () => {
  const controlnet = join(UNION.folder, "controlnet");
  const beside = (folder: string) => openPipeline(folder, { controlnet });
  await withControlNet([SCHNELL, DEV], (folder) =>
    assert.rejects(
      beside(folder),
      /the ControlNet's attention_head_dim is 16, the transformer's attention_head_dim is 128/,
    ));
  await assert.rejects(
    beside(new Golden("flux2/pipeline").folder),
    /Cannot use a ControlNet with .*: models of this family take none; leave it out/,
  );
  await withControlNet([DEV], async (folder) => {
    const path = join(folder, "model_index.json");
    const index = JSON.parse(Deno.readTextFileSync(path));
    Deno.writeTextFileSync(path, JSON.stringify({ ...index, _class_name: "FluxKontextPipeline" }));
    await assert.rejects(beside(folder), /Cannot use a ControlNet with FLUX.1 Kontext, Fill/);
    await assert.rejects(
      openPipeline(folder, { controlnet: join(folder, "vae") }),
      /its class is AutoencoderKL, and FluxControlNetModel is needed/,
    );
  });
});

Deno.test("Flux1Pipeline.generate() refuses control pictures of other sizes, unknown modes, and what is said of none", () =>
  withControlNet([UNION, DEV], async (folder) => {
    using pipeline = await openPipeline(folder);
    assert.deepEqual(pipeline.info.controlModes?.slice(0, 3), ["canny", "tile", "depth"]);
    const { control, controlMode: mode, ...plain } = controlRequest(UNION, UNION.call("pose"));
    const controlMode = mode!;
    const given = control!;
    const cases = [
      [{ control: given }, /a picture of no mode: this ControlNet takes canny, tile, depth/],
      [{ control: given, controlMode: "hed" }, /the mode hed: this ControlNet takes canny/],
      [{ control: { ...given, width: 8 }, controlMode }, /the result has 28x20 in RGB, 1680 bytes/],
      [{ control: given, controlMode, controlStart: 0.6, controlEnd: 0.6 }, /must be below/],
      [{ control: given, controlMode, controlScale: [1, 1] }, /a ControlNet takes one/],
      [{ controlMode }, /Cannot use controlScale: the request has no control picture/],
    ] as const;
    for (const [request, message] of cases) {
      await assert.rejects(pipeline.generate({ ...plain, ...request }), message);
    }
  }));
