/** FLUX.1 with ControlNets against diffusers. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { openPipeline, type Pipeline } from "../../models/mod.ts";
import { controlRequest, withControlNet } from "../controlled.ts";
import { assertClose, Golden, type GoldenCall } from "../golden.ts";
import { checkMasked } from "../masked.ts";
import { openTestDevice } from "../model_run.ts";
import { psnr } from "../pixels.ts";

/** f32 against torch in f32; weights as stored. */
const MIN_PSNR = 100;
/** Of the latents after the last step, as a part of their largest magnitude. */
const LATENT_GATE = 1e-4;

const UNION = new Golden("controlnets/flux1");
const WIDE = new Golden("controlnets/flux1_wide");
const [DEV, SCHNELL] = [new Golden("flux1/dev"), new Golden("flux1/schnell")];

/** Runs a call, and compares latents and pixels. */
async function checkCall(golden: Golden, pipeline: Pipeline, call: GoldenCall): Promise<void> {
  const request = controlRequest(golden, call);
  const { latents, frames } = await pipeline.generate(request);
  const expected = golden.tensor(call.name, "latents");
  assertClose("latents", { shape: expected.shape, data: latents }, expected, LATENT_GATE);
  const { data } = golden.tensor(call.name, "image");
  const decibels = request.mask ? checkMasked(frames[0]!, request, data) : psnr(frames[0]!, data);
  if (Deno.env.get("DENOISE_SHOW_ERRORS")) {
    console.log(`${call.name}: PSNR ${decibels.toFixed(1)} dB`);
  }
  assert.ok(decibels > MIN_PSNR, `PSNR is ${decibels.toFixed(1)} dB`);
}

async function checkAll(t: Deno.TestContext, golden: Golden, folder: string): Promise<void> {
  const device = await openTestDevice();
  try {
    using pipeline = await openPipeline(folder);
    await pipeline.load(device);
    for (const call of golden.calls) {
      await t.step(call.name, () => checkCall(golden, pipeline, call));
    }
  } finally {
    device.destroy();
  }
}

Deno.test("Flux1Pipeline.generate() is steered by a Union ControlNet as in diffusers: by mode, weight and window, guided, from an image and by a mask", (t) =>
  withControlNet([UNION, DEV], (folder) => checkAll(t, UNION, folder)));

Deno.test({
  name:
    "Flux1Pipeline.generate() is steered by a ControlNet without modes, with heads of 128; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: (t) => withControlNet([WIDE, SCHNELL, DEV], (folder) => checkAll(t, WIDE, folder)),
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
