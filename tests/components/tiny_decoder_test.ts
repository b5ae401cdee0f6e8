/** Tiny decoders against the reference: by themselves, and as the decoders of pipelines. */
import { join } from "node:path";
import { tiledDecoder } from "../../models/autoencoders/tiled_coder.ts";
import { tinyCodec, tinyVideoDecoder } from "../../models/pipeline/tiny_coders.ts";
import {
  TAEHV_FORMAT,
  TAESD_FORMAT,
  TINY_DECODER_CONFIG,
} from "../../models/autoencoders/tiny/config.ts";
import { recognise } from "../../models/checkpoints/recognise.ts";
import { parseConfig } from "../../models/config.ts";
import { Session, type Stage } from "../../models/memory/session.ts";
import { SessionRunner } from "../../models/memory/session_runner.ts";
import { openPipeline, type PipelineRequest } from "../../models/mod.ts";
import type { Component } from "../../models/pipeline/components.ts";
import type { Decoder } from "../../models/autoencoders/tiled_coder.ts";
import { type Device, Weights, writing } from "../../runtime/mod.ts";
import { Golden, transpose } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { openTestDevice } from "../support/model_run.ts";
import { psnr } from "../support/pixels.ts";
import { memoryTensors } from "../support/memory_tensors.ts";

import assert from "node:assert/strict";

const FILE = "diffusion_pytorch_model.safetensors";

/** What f32 gives against torch in f32. */
const MIN_PSNR = 100;

/** Runs a decoder as the last stage of a pipeline does. */
async function decode(
  device: Device,
  weights: Weights,
  trace: (stage: Stage, name: string) => Decoder,
  latents: ArrayLike<number>,
): Promise<Float32Array> {
  const session = new Session(device.target);
  const decoder = trace(session.stage("decode"), "decode");
  const runner = new SessionRunner(session, { decoder: weights });
  await runner.allocate(device, runner.plan({ budgetBytes: Infinity }));
  const parts: Float32Array[] = [];
  try {
    await runner.run((work) =>
      decoder.run(work, {
        first: [writing(decoder.input, latents)],
        received: (_, pixels) => pixels && parts.push(pixels.slice()),
      })
    );
  } finally {
    runner.destroy();
  }
  const all = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let start = 0;
  for (const part of parts) {
    all.set(part, start);
    start += part.length;
  }
  return all;
}

function openTiny(golden: Golden): Component<ReturnType<typeof TINY_DECODER_CONFIG.parse>> {
  const checkpoint = golden.checkpoint(FILE);
  const [found] = recognise(checkpoint, [TAEHV_FORMAT, TAESD_FORMAT]);
  const config = parseConfig(TINY_DECODER_CONFIG, found!.format.config(found!.tensors), FILE);
  return { config, path: "", weights: new Weights(found!.tensors) };
}

function assertNear(title: string, actual: ArrayLike<number>, expected: ArrayLike<number>): void {
  assert.equal(actual.length, expected.length, title);
  const decibels = psnr(actual, expected);
  assert.ok(decibels > MIN_PSNR, `${title}: PSNR is ${decibels.toFixed(1)} dB`);
}

for (const name of ["tiny/taew21", "tiny/taew22", "tiny/taef1"]) {
  Deno.test(`a tiny decoder gives the pixels of the reference: ${name}`, async () => {
    const golden = new Golden(name);
    const device = await openTestDevice();
    try {
      const tiny = openTiny(golden);
      const isVideo = tiny.config._class_name === "TAEHV";
      for (const call of golden.calls) {
        const given = golden.tensor(call.name, "latents");
        const shape = given.shape.slice(isVideo ? -4 : -3);
        const latents = transpose({ ...given, shape }, isVideo ? [1, 2, 3, 0] : [1, 2, 0]);
        const [height, width] = shape.slice(-2) as [number, number];
        const size = { frames: shape[1]!, height, width, tileSide: Infinity };
        const trace = isVideo ? tinyVideoDecoder(tiny, size) : tiledDecoder(tinyCodec(tiny), size);
        const pixels = await decode(device, tiny.weights, trace, latents.data);
        const expected = transpose(golden.tensor(call.name, "pixels"), [0, 2, 3, 1]);
        assertNear(call.name, pixels, expected.data);
      }
    } finally {
      device.destroy();
    }
  });
}

Deno.test("TAESD_FORMAT knows a decoder in the names of its author, alone and beside its encoder", () => {
  const golden = new Golden("tiny/taef1");
  using checkpoint = golden.checkpoint(FILE);
  for (const prefix of ["", "decoder."]) {
    const tensors = Object.fromEntries(
      [...checkpoint.names].map((name) => {
        const [, layer, rest] = /^decoder\.layers\.(\d+)(.*)$/.exec(name)!;
        return [`${prefix}${Number(layer) + 1}${rest}`, checkpoint.find(name)!.shape];
      }),
    );
    const [found] = recognise(memoryTensors(tensors), [TAEHV_FORMAT, TAESD_FORMAT]);
    assert.equal(found!.format, TAESD_FORMAT);
    assert.deepEqual([...found!.tensors.names].sort(), [...checkpoint.names].sort());
  }
});

/** Pipelines, the call whose latents a tiny decoder decodes, and their parts. */
const PIPELINES: readonly (readonly [string, string, string, string?])[] = [
  ["wan/pipeline-t2v", "clip9", "tiny/taew21"],
  ["hunyuan_video_15/pipeline", "guided", "tiny/taehv15"],
  ["z_image/pipeline", "long", "tiny/taef1", "tiny/kl8"],
  ["stable_diffusion/pipeline", "guided", "tiny/taesd", "tiny/kl8_sd"],
];

for (const [name, callName, tinyName, vaeName] of PIPELINES) {
  const isSlow = !/^(wan|stable_diffusion)\//.test(name);
  Deno.test({
    name: `decoder "tiny" decodes the result of ${name}${isSlow ? "; with DENOISE_SLOW" : ""}`,
    ignore: isSlow && !Deno.env.has("DENOISE_SLOW"),
    fn: async () => {
      const golden = new Golden(name);
      const tiny = new Golden(tinyName);
      const device = await openTestDevice();
      using pipeline = await openPipeline(golden.folder, {
        tinyDecoder: join(tiny.folder, FILE),
        ...(vaeName && { vae: new Golden(vaeName).folder }),
      });
      try {
        await pipeline.load(device);
        assert.deepEqual(pipeline.info.optionalParts, ["tinyDecoder"]);
        const { shape } = tiny.tensor(callName, "pixels");
        const [height, width] = shape.slice(-2) as [number, number];
        const request: PipelineRequest = {
          ...textRequest(golden.call(callName)),
          width,
          height,
          decoder: "tiny",
        };
        const previews: Float32Array[] = [];
        const { frames } = await pipeline.generate(request, {
          previews: 1,
          onPreview: (frame) => previews.push(frame),
        });
        const expected = transpose(tiny.tensor(callName, "pixels"), [0, 2, 3, 1]);
        const unit = Array.from(
          expected.data,
          (value) => Math.min(1, Math.max(0, value / 2 + 0.5)),
        );
        assertNear(callName, frames.flatMap((frame) => [...frame]), unit);
        assert.equal(previews[0]!.length, width * height * 3);
      } finally {
        device.destroy();
      }
    },
  });
}

Deno.test("openPipeline() refuses a tiny decoder of another model, and requests for one that is not there", async () => {
  const { folder } = new Golden("wan/pipeline-t2v");
  const other = (name: string) => ({ tinyDecoder: join(new Golden(name).folder, FILE) });
  await assert.rejects(openPipeline(folder, other("tiny/taew22")), /latent channels is 8, the/);
  await assert.rejects(openPipeline(folder, other("tiny/taef1")), /its class is AutoencoderTiny/);
  using pipeline = await openPipeline(folder);
  const request = textRequest(new Golden("wan/pipeline-t2v").call("image"));
  await assert.rejects(pipeline.generate({ ...request, decoder: "tiny" }), /name its file with/);
});
