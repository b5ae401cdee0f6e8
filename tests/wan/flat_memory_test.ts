/**
 * The memory that decoding takes does not grow with the length of the clip; only the latents do. The long clip is longer with
 * `DENOISE_SLOW`.
 */
import { tinyVideoDecoder } from "../../models/pipeline/tiny_coders.ts";
import { TAEHV_FORMAT, TINY_DECODER_CONFIG } from "../../models/autoencoders/tiny/config.ts";
import { videoDecoder } from "../../models/pipeline/video_coders.ts";
import { wanVideoCodec } from "../../models/pipeline/wan_coders.ts";
import { WAN_VAE_CONFIG } from "../../models/autoencoders/wan/config.ts";
import { recognise } from "../../models/checkpoints/recognise.ts";
import { parseConfig } from "../../models/config.ts";
import { FRAME_INTERPOLATOR_CONFIG, RIFE_FORMAT } from "../../models/frame_interpolators/ifnet.ts";
import { Session, type Stage } from "../../models/memory/session.ts";
import { SessionRunner } from "../../models/memory/session_runner.ts";
import type { Decoder } from "../../models/autoencoders/tiled_coder.ts";
import { Finishing } from "../../models/pipeline/finishing.ts";
import { toUnitRange } from "../../models/pipeline/pixels.ts";
import { type Checkpoint, type Device, Weights, writing } from "../../runtime/mod.ts";
import { Golden } from "../support/golden.ts";
import { openTestDevice } from "../support/model_run.ts";

import assert from "node:assert/strict";

const FILE = "diffusion_pytorch_model.safetensors";
const SIZE = { height: 4, width: 4, tileSide: Infinity };
/** Frames of the clips. */
const SHORT = 13;
const LONG = Deno.env.has("DENOISE_SLOW") ? 81 : 29;
const PIXELS = { width: 8 * SIZE.width, height: 8 * SIZE.height };

/** Each but the first is decoded to four frames. */
function latentFrames(frames: number): number {
  return (frames - 1) / 4 + 1;
}

/** A decoder in a stage, with its weights. */
type Decoding = (stage: Stage, frames: number) => { decoder: Decoder; weights: Weights };

function wan(checkpoint: Checkpoint, golden: Golden): Decoding {
  const config = WAN_VAE_CONFIG.parse(golden.config("vae/config.json"));
  return (stage, frames) => {
    const weights = new Weights(checkpoint);
    return {
      weights,
      decoder: videoDecoder(wanVideoCodec({ config, weights }), { ...SIZE, frames })(
        stage,
        "decode",
      ),
    };
  };
}

function tiny(checkpoint: Checkpoint): Decoding {
  const [{ format, tensors }] = recognise(checkpoint, [TAEHV_FORMAT]) as [{
    format: typeof TAEHV_FORMAT;
    tensors: Checkpoint;
  }];
  const config = parseConfig(TINY_DECODER_CONFIG, format.config(tensors), FILE);
  return (stage, frames) => {
    const weights = new Weights(tensors);
    return {
      weights,
      decoder: tinyVideoDecoder({ config, weights, path: FILE }, { ...SIZE, frames })(
        stage,
        "decode",
      ),
    };
  };
}

/** Decodes so many latent frames, doubling their rate; how many frames came, and what they took. */
async function decode(
  device: Device,
  decoding: Decoding,
  interpolator: Checkpoint,
  frames: number,
) {
  const [found] = recognise(interpolator, [RIFE_FORMAT]);
  const config = parseConfig(FRAME_INTERPOLATOR_CONFIG, found!.format.config(found!.tensors), FILE);
  const between = new Weights(found!.tensors);
  const session = new Session(device.target);
  const { decoder, weights } = decoding(session.stage("decode"), frames);
  const finishing = new Finishing(
    session,
    { frameInterpolator: { config, weights: between, path: FILE } },
    { ...PIXELS, isUpscaled: false, interpolation: { exponent: 1, scale: 1 } },
  );
  const runner = new SessionRunner(session, { decoder: weights, between });
  device.resetPeak();
  await runner.allocate(device, runner.plan({ budgetBytes: Infinity }));
  let count = 0;
  let waiting = 0;
  let mostWaiting = 0;
  finishing.begin();
  await runner.run(async (queue) => {
    const finish = () =>
      finishing.run(queue, () => {
        count++;
        waiting -= 0.5;
      });
    const run: typeof queue.run = async (...work) => {
      await queue.run(...work);
      await finish();
    };
    const bytes = PIXELS.width * PIXELS.height * 3;
    const latents = Float32Array.from({ length: 16 * frames * 16 }, (_, i) => Math.sin(i));
    await decoder.run({ run }, {
      first: [writing(decoder.input, latents)],
      received: (_, pixels) => {
        if (!pixels) return;
        for (let at = 0; at < pixels.length; at += bytes) {
          finishing.take(toUnitRange(pixels.subarray(at, at + bytes)));
          waiting++;
        }
        mostWaiting = Math.max(mostWaiting, waiting);
      },
    });
    await queue.finish();
    while (finishing.hasWaiting) {
      await finish();
      await queue.finish();
    }
  });
  const { peakBytes } = device;
  runner.destroy();
  weights.destroy();
  between.destroy();
  return { count, peakBytes, mostWaiting };
}

for (const name of ["Wan's autoencoder", "a tiny decoder"]) {
  Deno.test(`decoding with ${name} takes the same memory for ${SHORT} and for ${LONG} frames, interpolated too`, async () => {
    const golden = new Golden(name === "a tiny decoder" ? "tiny/taew21" : "wan/pipeline-t2v");
    using checkpoint = golden.checkpoint(name === "a tiny decoder" ? FILE : "vae");
    using interpolator = new Golden("rife/plain").checkpoint(FILE);
    const device = await openTestDevice();
    try {
      const decoding = name === "a tiny decoder" ? tiny(checkpoint) : wan(checkpoint, golden);
      const short = await decode(device, decoding, interpolator, latentFrames(SHORT));
      const long = await decode(device, decoding, interpolator, latentFrames(LONG));
      assert.deepEqual([short.count, long.count], [2 * SHORT - 1, 2 * LONG - 1]);
      const added = latentFrames(LONG) - latentFrames(SHORT);
      const latents = 16 * SIZE.width * SIZE.height * added * 4;
      assert.equal(long.peakBytes - short.peakBytes, latents);
      assert.ok(
        long.mostWaiting <= short.mostWaiting + 4,
        `${long.mostWaiting} frames wait for the next step at once, ${short.mostWaiting} of the short clip`,
      );
    } finally {
      device.destroy();
    }
  });
}
