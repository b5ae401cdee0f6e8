/** RIFE against the reference: frames between two, once and twice doubled. */
import { join } from "node:path";
import { recognise } from "../../models/checkpoints/recognise.ts";
import { parseConfig } from "../../models/config.ts";
import { FRAME_INTERPOLATOR_CONFIG, RIFE_FORMAT } from "../../models/frame_interpolators/ifnet.ts";
import { Session } from "../../models/memory/session.ts";
import { SessionRunner } from "../../models/memory/session_runner.ts";
import { openPipeline } from "../../models/mod.ts";
import { Finishing } from "../../models/pipeline/finishing.ts";
import { Weights } from "../../runtime/mod.ts";
import { Golden, transpose } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { openTestDevice } from "../support/model_run.ts";
import { psnr } from "../support/pixels.ts";

import assert from "node:assert/strict";

const FILE = "diffusion_pytorch_model.safetensors";

/** What f32 gives against torch in f32. */
const MIN_PSNR = 80;

for (const name of ["narrow", "five", "plain"]) {
  Deno.test(`a frame interpolator gives the frames of the reference: rife/${name}`, async () => {
    const golden = new Golden(`rife/${name}`);
    const device = await openTestDevice();
    using checkpoint = golden.checkpoint(FILE);
    try {
      const [found] = recognise(checkpoint, [RIFE_FORMAT]);
      const json = found!.format.config(found!.tensors);
      const config = parseConfig(FRAME_INTERPOLATOR_CONFIG, json, FILE);
      for (const { name: call, args, outputs } of golden.calls) {
        const weights = new Weights(found!.tensors);
        const image = (tensor: string) => {
          const { shape, data } = transpose(golden.tensor(call, tensor), [0, 2, 3, 1]);
          const [, height, width] = shape as [number, number, number];
          return { height, width, pixels: Float32Array.from(data) };
        };
        const [first, second] = [image("first"), image("second")];
        const { width, height } = first;
        const exponent = outputs.length === 1 ? 1 : 2;
        const session = new Session(device.target);
        const finishing = new Finishing(
          session,
          { frameInterpolator: { config, weights, path: "" } },
          {
            ...{ width, height, isUpscaled: false },
            interpolation: { exponent, scale: args["scale"] as number },
          },
        );
        const runner = new SessionRunner(session, { "frame interpolator": weights });
        await runner.allocate(device, runner.plan({ budgetBytes: Infinity }));
        const results: Float32Array[] = [];
        await runner.run(async (queue) => {
          finishing.begin();
          for (const { pixels } of [first, second]) finishing.take(pixels);
          await finishing.run(queue, (frame) => results.push(frame));
        });
        runner.destroy();
        weights.destroy();
        const names = exponent === 1 ? ["middle"] : ["quarter", "middle", "three_quarters"];
        assert.equal(results.length, names.length + 2);
        assert.deepEqual([results[0], results.at(-1)], [first.pixels, second.pixels]);
        for (const [i, between] of names.entries()) {
          const expected = image(between).pixels.map((value) => Math.min(1, Math.max(0, value)));
          const decibels = psnr(results[i + 1]!, expected);
          assert.ok(decibels > MIN_PSNR, `${call} ${between}: PSNR is ${decibels.toFixed(1)} dB`);
        }
      }
    } finally {
      device.destroy();
    }
  });
}

Deno.test("enableFrameInterpolation puts frames between those of a video, and upscales them too", async () => {
  const golden = new Golden("wan/pipeline-t2v");
  const file = (name: string) => join(new Golden(name).folder, FILE);
  const device = await openTestDevice();
  using pipeline = await openPipeline(golden.folder, {
    upscaler: file("upscalers/compact"),
    frameInterpolator: file("rife/plain"),
  });
  try {
    await pipeline.load(device);
    const request = { ...textRequest(golden.call("clip5")), width: 32, height: 32 };
    const all = { enableFrameInterpolation: true, frameInterpolationExp: 2, enableUpscaling: true };
    const { frames } = await pipeline.generate({ ...request, ...all, numInferenceSteps: 1 });
    assert.deepEqual(
      frames.map(({ length }) => length),
      new Array<number>(17).fill(4 * request.width * request.height * 3),
    );
  } finally {
    device.destroy();
  }
});

Deno.test("a frame interpolator is recognised by ComfyUI's names", () => {
  using checkpoint = new Golden("rife/narrow").checkpoint(FILE);
  const ours = (name: string) => name.replace(/^blocks\.(\d)/, "block$1");
  const renamed = {
    path: checkpoint.path,
    names: [...checkpoint.names].map((name) =>
      `flownet.${name.replace(/^block(\d)/, "blocks.$1")}`
    ),
    find: (name: string) => checkpoint.find(ours(name.replace("flownet.", ""))),
    read: () => {},
  };
  const [[found], [own]] = [
    recognise(renamed, [RIFE_FORMAT]),
    recognise(checkpoint, [RIFE_FORMAT]),
  ];
  assert.deepEqual(found!.format.config(found!.tensors), own!.format.config(own!.tensors));
});
