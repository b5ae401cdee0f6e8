/** FLUX.1 with ControlNets against diffusers. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { quantizeCheckpoint, type QuantizedType } from "../../models/checkpoints/quantize/mod.ts";
import { openPipeline, type PipelineRequest } from "../../models/mod.ts";
import { withComposed } from "../support/composed.ts";
import { checkControlled, controlRequest } from "../support/controlled.ts";
import { Golden } from "../support/golden.ts";
import { openTestDevice } from "../support/model_run.ts";
import { psnr } from "../support/pixels.ts";

const UNION = new Golden("controlnets/flux1");
const WIDE = new Golden("controlnets/flux1_wide");
/** Files of a ControlNet, and how near to diffusers they must bring the image, in dB. */
const FILES: readonly [name: string, type: QuantizedType | undefined, least: number][] = [
  ["bf16.safetensors", undefined, 100],
  ["q8_0.gguf", "q8_0", 35],
  ["fp8.safetensors", "f8_e4m3", 25],
];
const [DEV, SCHNELL] = [new Golden("flux1/dev"), new Golden("flux1/schnell")];

Deno.test("Flux1Pipeline.generate() is steered by a Union ControlNet as in diffusers: by mode, weight and window, guided, from an image and by a mask", (t) =>
  checkControlled(t, [UNION, DEV]));

Deno.test("Flux1Pipeline.generate() is steered by two ControlNets as in diffusers, of unequal weights and windows, and by one that sees two pictures", (t) =>
  checkControlled(t, [new Golden("controlnets/flux1_several"), UNION, DEV]));

Deno.test({
  name:
    "Flux1Pipeline.generate() is steered by a ControlNet without modes, with heads of 128; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: (t) => checkControlled(t, [WIDE, SCHNELL, DEV]),
});

Deno.test("openPipeline() refuses ControlNets of other sizes, of other families, and beside Kontext", async () => {
  const controlnet = join(UNION.folder, "controlnet");
  const beside = (folder: string) => openPipeline(folder, { controlnet });
  await withComposed([SCHNELL, DEV], (folder) =>
    assert.rejects(
      beside(folder),
      /the ControlNet's attention_head_dim is 16, the transformer's attention_head_dim is 128/,
    ));
  await assert.rejects(
    beside(new Golden("flux2/pipeline").folder),
    /Cannot use a ControlNet with .*: models of this family take no such part; omit it/,
  );
  await withComposed([DEV], async (folder) => {
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
  withComposed([UNION, DEV], async (folder) => {
    using pipeline = await openPipeline(folder);
    assert.deepEqual(pipeline.info.controlNets[0]!.modes!.slice(0, 3), ["canny", "tile", "depth"]);
    const { control, controlMode: mode, ...plain } = controlRequest(UNION, UNION.call("pose"));
    const controlMode = mode!;
    const [given] = control!;
    const cases = [
      [{ control }, /controlMode must say what the control picture shows, one of canny, tile/],
      [{ control, controlMode: ["hed"] }, /one of canny, tile, .*, got hed/],
      [
        { control: [{ ...given!, width: 8 }], controlMode },
        /the result has 28x20 in RGB, 1680 bytes/,
      ],
      [{ control, controlMode, controlStart: [0.6], controlEnd: [0.6] }, /must be below 0.6/],
      [{ control, controlMode, controlScale: [1, 1] }, /2 values of controlScale: give one/],
      [{ control: new Array(9).fill(given!), controlMode }, /9 control pictures: .* takes 8/],
      [
        { control, controlMode, controlNet: ["hed"] },
        /the ControlNet "hed": the model has controlnet/,
      ],
      [{ controlMode }, /Cannot use controlScale: the request has no control picture/],
    ] as const;
    for (const [request, message] of cases) {
      await assert.rejects(pipeline.generate({ ...plain, ...request } as PipelineRequest), message);
    }
  }));

Deno.test({
  name: "ControlNets of FLUX.1 from single files, GGUF and fp8 steer alike; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: () =>
    withComposed([SCHNELL, DEV], async (folder) => {
      const own = join(WIDE.folder, "controlnet");
      const call = WIDE.call("text");
      const { data } = WIDE.tensor(call.name, "image");
      const device = await openTestDevice();
      try {
        for (const [name, type, least] of FILES) {
          const file = join(folder, name);
          if (type) await quantizeCheckpoint(own, file, { type });
          else cpSync(join(own, "diffusion_pytorch_model.safetensors"), file);
          using pipeline = await openPipeline(folder, { controlnet: file });
          await pipeline.load(device);
          const { frames } = await pipeline.generate(controlRequest(WIDE, call));
          const decibels = psnr(frames[0]!, data);
          assert.ok(decibels > least && decibels < (type ? 90 : Infinity), `${name}: ${decibels}`);
        }
      } finally {
        device.destroy();
      }
    }),
});
