/** LTX-2's video autoencoder against the reference. */
import { strict as assert } from "node:assert";
import {
  LTX2_VIDEO_VAE_CONFIG,
  type Ltx2VideoVaeConfig,
} from "../../models/autoencoders/ltx2/video_config.ts";
import {
  ltx2VideoDecoder,
  ltx2VideoEncoder,
  scaleVideoLatents,
  tailFrames,
  tailPieces,
} from "../../models/autoencoders/ltx2/video_coder.ts";
import { addTile, scaleTile, tilesOf } from "../../models/autoencoders/tiling.ts";
import { ltx2Frames, traceLtx2Encoder } from "../../models/pipeline/ltx2_coders.ts";
import type { VideoSize } from "../../models/pipeline/video_coders.ts";
import type { Work } from "../../models/pipeline/work.ts";
import { type Device, type DeviceOptions, elementwise, Weights } from "../../runtime/mod.ts";
import { psnr } from "../support/pixels.ts";
import { code, runSession } from "../support/coder_run.ts";
import { parseConfig } from "../../models/config.ts";
import { assertClose, Golden, transpose, type Values } from "../support/golden.ts";
import { checkCalls, ModelRun, openTestDevice } from "../support/model_run.ts";

/** [batch, channels, frames, height, width] of the reference to [batch, frames, height, width, channels]. */
const TO_CHANNELS_LAST = [0, 2, 3, 4, 1];
const TO_CHANNELS_FIRST = [0, 4, 1, 2, 3];

interface Vae {
  readonly config: Ltx2VideoVaeConfig;
  readonly weights: Weights;
}

/** Pixels of latents, both as the reference has them. */
async function decoded(device: Device, { config, weights }: Vae, latents: Values): Promise<Values> {
  const z = transpose(latents, TO_CHANNELS_LAST);
  using run = await ModelRun.prepare(device, weights, { z }, (graph, { z }) => ({
    pixels: ltx2VideoDecoder(graph, config, weights.root, z!),
  }));
  await run.run();
  return transpose(await run.read("pixels"), TO_CHANNELS_FIRST);
}

/** Opens a golden's autoencoder. */
async function withVae(
  name: string,
  use: (device: Device, vae: Vae, golden: Golden) => Promise<void>,
  options: DeviceOptions = {},
): Promise<void> {
  const device = await openTestDevice(options);
  const golden = new Golden(`ltx2_coders/${name}`);
  const config = parseConfig(LTX2_VIDEO_VAE_CONFIG, golden.config(), "config.json");
  using checkpoint = golden.checkpoint();
  const weights = new Weights(checkpoint);
  try {
    await use(device, { config, weights }, golden);
  } finally {
    weights.destroy();
    device.destroy();
  }
}

for (const name of ["video-tiny", "video-unlike", "video-wide"]) {
  Deno.test(`ltx2VideoEncoder() and ltx2VideoDecoder() give the latents and pixels of ${name}`, async (t) => {
    const golden = new Golden(`ltx2_coders/${name}`);
    const config = parseConfig(LTX2_VIDEO_VAE_CONFIG, golden.config(), "config.json");
    using checkpoint = golden.checkpoint();
    const unused = await checkCalls(t, golden, checkpoint, async (device, weights, call) => {
      if (call.inputs.includes("video")) {
        const { shape, data } = transpose(golden.tensor(call.name, "video"), TO_CHANNELS_LAST);
        const video = { shape, data: Float32Array.from(data, (value) => value / 127.5 - 1) };
        using run = await ModelRun.prepare(device, weights, { video }, (graph, { video }) => {
          const mean = ltx2VideoEncoder(graph, config, weights.root, video!);
          return { mean, normalised: scaleVideoLatents(config, weights.root, mean) };
        });
        await run.run();
        for (const output of ["mean", "normalised"]) {
          const latents = transpose(await run.read(output), TO_CHANNELS_FIRST);
          assertClose(`${name} ${call.name}`, latents, golden.tensor(call.name, output), 1e-4);
        }
        return;
      }
      const pixels = await decoded(device, { config, weights }, golden.tensor(call.name, "z"));
      assertClose(`${name} ${call.name}`, pixels, golden.tensor(call.name, "pixels"), 1e-4);
    });
    assert.deepEqual(unused, []);
  });
}

Deno.test("tailPieces() gives pieces of 8 frames, after a first one that reaches as far as the last level looks forward", () => {
  const config = LTX2_VIDEO_VAE_CONFIG.parse({
    ...{ decoder_causal: false, spatial_compression_ratio: 32, temporal_compression_ratio: 8 },
  });
  assert.equal(tailFrames(config, 16), 61);
  assert.deepEqual(tailPieces(config, 61), [8, ...new Array(13).fill(4), 1]);
  assert.deepEqual(tailPieces(config, 8), [8]);
  assert.deepEqual(tailPieces({ ...config, decoder_causal: true }, 9), [4, 4, 1]);
});

const IS_FAST = !Deno.env.has("DENOISE_SLOW");

Deno.test("ltx2VideoDecoder() keeps 40 dB where factors are rounded to f16; with DENOISE_SLOW", {
  ignore: IS_FAST,
}, () =>
  withVae("video-wide", async (device, vae, golden) => {
    const pixels = await decoded(device, vae, golden.tensor("decode", "z"));
    const unit = (values: ArrayLike<number>) =>
      Float32Array.from(values, (value) => Math.min(1, Math.max(0, (value + 1) / 2)));
    const decibels = psnr(unit(pixels.data), unit(golden.tensor("decode", "pixels").data));
    assert.ok(decibels > 40, `${decibels} dB`);
  }, { schedule: "gpu", operands: "f16" }));

/** What a decoder gives for latents, [frames, height, width, channels]. */
type Decode = (size: VideoSize, latents: Float32Array) => Promise<Float32Array>;

function withDecoder(
  use: (decode: Decode, golden: Golden) => Promise<void>,
  name = "video-tiny",
): Promise<void> {
  return withVae(name, (device, vae, golden) =>
    use(
      (size, latents) => code(device, vae.weights, latents, ltx2Frames(vae, size).decoder),
      golden,
    ));
}

for (const name of ["video-tiny", "video-unlike"]) {
  Deno.test(`ltx2Frames() gives the reference's frames, some at a time: ${name}`, () =>
    withDecoder(async (decode, golden) => {
      const { shape, data } = transpose(golden.tensor("decode", "z"), TO_CHANNELS_LAST);
      const [, frames, height, width] = shape as [number, number, number, number];
      const size = { frames, height, width, tileSide: 3 };
      const pixels = await decode(size, Float32Array.from(data));
      const expected = transpose(golden.tensor("decode", "pixels"), TO_CHANNELS_LAST);
      assertClose("frames", { shape: expected.shape, data: pixels }, expected, 1e-4);
    }, name));
}

Deno.test("ltx2Frames() decodes every tile and span of time as if it were the whole, and blends the seams", () =>
  withDecoder(async (decode) => {
    const [height, width, frames, channels, scale, tileSide] = [2, 3, 9, 8, 32, 2];
    const latents = Float32Array.from(
      { length: frames * height * width * channels },
      (_, i) => Math.sin(0.37 * i + Math.floor(i / channels)),
    );
    const actual = await decode({ frames, height, width, tileSide }, latents);
    const expected = new Float32Array(actual.length);
    const frameSize = height * width * scale ** 2 * 3;
    // Nine latent frames are 65 frames: six of them 41, and as many again from the fourth on.
    assert.equal(actual.length, 65 * frameSize);
    const tiles = tilesOf(height, width, tileSide);
    assert.equal(tiles.length, 2);
    for (const [start, first, last] of [[0, 0, 17], [3, 17, 0]] as const) {
      for (const tile of tiles) {
        const { rows, columns } = tile;
        const part = Float32Array.from(
          { length: 6 * rows.size * columns.size * channels },
          (_, i) => {
            const c = i % channels;
            const x = columns.start + Math.floor(i / channels) % columns.size;
            const y = rows.start + Math.floor(i / channels / columns.size) % rows.size;
            const f = start + Math.floor(i / channels / columns.size / rows.size);
            return latents[((f * height + y) * width + x) * channels + c]!;
          },
        );
        const size = { frames: 6, height: rows.size, width: columns.size, tileSide };
        const pixels = await decode(size, part);
        const tileSize = pixels.length / 41;
        for (let i = 0; i < 41; i++) {
          const data = expected.subarray((start * 8 + i) * frameSize).subarray(0, frameSize);
          const share = Math.min(1, (i + 0.5) / first, (41 - i - 0.5) / last);
          addTile(
            { data, width: width * scale },
            scaleTile(tile, scale),
            pixels.subarray(i * tileSize, (i + 1) * tileSize),
            share,
          );
        }
      }
    }
    const shape = [expected.length];
    assertClose("tiles", { shape, data: actual }, { shape, data: expected }, 1e-5);
  }));

Deno.test("traceLtx2Encoder() gives the reference's latents of an image, normalised", () =>
  withVae("video-tiny", async (device, vae, golden) => {
    const { shape, data } = transpose(golden.tensor("image", "video"), TO_CHANNELS_LAST);
    const [, , height, width] = shape as [number, number, number, number];
    const size = { frames: 1, height: height / 32, width: width / 32, tileSide: 3 };
    let latents = new Float32Array();
    await runSession(device, vae.weights, (session) => {
      const encoder = traceLtx2Encoder(session, vae, size);
      const copy = encoder.stage.program(
        "copy",
        { x: encoder.latents },
        ({ x }) => elementwise("1.0 * x", { x }),
      );
      encoder.stage.willRead(copy.outputs);
      return async (work) => {
        const image = { length: 1, at: () => Uint8Array.from(data) };
        await encoder.run(Object.assign(work, { encodeDone: () => {} }) as Work, image);
        await work.run([copy.call({})], {
          reads: [copy.outputs],
          finished: ([contents]) => latents = Float32Array.from(contents!),
        });
      };
    });
    const expected = transpose(golden.tensor("image", "normalised"), TO_CHANNELS_LAST);
    assertClose("latents", { shape: expected.shape, data: latents }, expected, 1e-4);
  }));
