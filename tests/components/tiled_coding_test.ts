/** Autoencoders in tiles: against what they give for every tile by itself, and against the whole. */
import { strict as assert } from "node:assert";
import { fileURLToPath } from "node:url";
import { tiledDecoder, tiledEncoder } from "../../models/autoencoders/tiled_coder.ts";
import { klCodec } from "../../models/pipeline/kl_coders.ts";
import { KL_VAE_CONFIG } from "../../models/autoencoders/kl/config.ts";
import type { TiledSize } from "../../models/autoencoders/tiled_coder.ts";
import { addTile, scaleTile, type Tile, tilesOf } from "../../models/autoencoders/tiling.ts";
import { traceVideoEncoder, videoDecoder } from "../../models/pipeline/video_coders.ts";
import { unscaleLatents, wanVideoCodec } from "../../models/pipeline/wan_coders.ts";
import { openModelFiles } from "../../models/checkpoints/open_model.ts";
import { parseConfig } from "../../models/config.ts";
import { WAN_PARTS } from "../../models/families/wan/config.ts";
import { openParts } from "../../models/pipeline/components.ts";
import type { Work } from "../../models/pipeline/work.ts";
import { Weights } from "../../runtime/mod.ts";
import { Golden, transpose } from "../support/golden.ts";
import { code, runSession } from "../support/coder_run.ts";
import { openTestDevice } from "../support/model_run.ts";
import { psnr } from "../support/pixels.ts";

/** A tile of an image, channels last. */
function crop(
  values: Float32Array,
  { rows, columns }: Tile,
  [width, channels]: readonly [number, number],
): Float32Array {
  const line = columns.size * channels;
  const part = new Float32Array(rows.size * line);
  for (let y = 0; y < rows.size; y++) {
    const from = ((rows.start + y) * width + columns.start) * channels;
    part.set(values.subarray(from, from + line), y * line);
  }
  return part;
}

function assertNear(actual: Float32Array, expected: Float32Array): void {
  assert.equal(actual.length, expected.length);
  actual.forEach((value, i) => assert.ok(Math.abs(value - expected[i]!) < 1e-4, `element ${i}`));
}

/** Smooth and different everywhere, in [-1, 1]. */
function waves(height: number, width: number, channels: number): Float32Array {
  return Float32Array.from({ length: height * width * channels }, (_, i) => {
    const [c, x, y] = [
      i % channels,
      Math.floor(i / channels) % width,
      Math.floor(i / channels / width),
    ];
    return Math.sin(0.21 * x + c) * Math.cos(0.13 * y - 0.5 * c);
  });
}

for (const [name, isEncoder] of [["tiledDecoder", false], ["tiledEncoder", true]] as const) {
  Deno.test(`${name}() codes every tile as if it were the whole, and blends the seams`, async () => {
    const device = await openTestDevice();
    const golden = new Golden("kl/sd-tiny");
    const config = parseConfig(KL_VAE_CONFIG, golden.config(), "config.json");
    using checkpoint = golden.checkpoint();
    const vae = { config, weights: new Weights(checkpoint) };
    const trace = isEncoder ? tiledEncoder : tiledDecoder;
    const scale = 2;
    const [inputScale, resultScale] = isEncoder ? [scale, 1] : [1, scale];
    const channels = isEncoder ? 3 : config.latent_channels;
    const codeImage = (size: TiledSize, input: Float32Array) =>
      code(device, vae.weights, input, trace(klCodec(vae), size));
    try {
      const { height, width, tileSide } = { height: 11, width: 18, tileSide: 8 };
      const input = waves(height * inputScale, width * inputScale, channels);
      await vae.weights.upload(device);
      const actual = await codeImage({ height, width, tileSide }, input);
      const expected = { data: new Float32Array(actual.length), width: width * resultScale };
      const tiles = tilesOf(height, width, tileSide);
      assert.equal(tiles.length, 6);
      for (const tile of tiles) {
        const size = { height: tile.rows.size, width: tile.columns.size, tileSide };
        const part = crop(input, scaleTile(tile, inputScale), [width * inputScale, channels]);
        addTile(expected, scaleTile(tile, resultScale), await codeImage(size, part));
      }
      assertNear(actual, expected.data);
    } finally {
      vae.weights.destroy();
      device.destroy();
    }
  });
}

/** How much a tile counts at each position in the reference: seams begin with all of the tile before. */
function referenceShares({ rows: { size, before, after } }: Tile): number[] {
  return Array.from(
    { length: size },
    (_, i) => i < before ? i / before : i >= size - after ? 1 - (i - size + after) / after : 1,
  );
}

/** Every value is as far as this from the reference's at most. */
const TILE_GATE = 2e-4;
/** Tiles of 8 latents that share 2, of which two cover 14. */
const TILED = { height: 14, width: 14, tileSide: 8 };

for (const [name, isEncoder] of [["tiledDecoder", false], ["tiledEncoder", true]] as const) {
  Deno.test(`${name}() gives what diffusers' enable_tiling gives, but that seams begin half a position later, and is no farther from the whole`, async () => {
    const device = await openTestDevice();
    const golden = new Golden("kl/sd-tiny");
    const config = parseConfig(KL_VAE_CONFIG, golden.config(), "config.json");
    using checkpoint = golden.checkpoint();
    const vae = { config, weights: new Weights(checkpoint) };
    const trace = isEncoder ? tiledEncoder : tiledDecoder;
    const [inputScale, resultScale] = isEncoder ? [2, 1] : [1, 2];
    const of = (name: string) => {
      const { shape, data } = transpose(golden.tensor("tiled", name), [0, 2, 3, 1]);
      return { data: Float32Array.from(data), channels: shape[3]! };
    };
    const [input, result] = isEncoder ? ["picture", "moments"] : ["latents", "pixels"];
    const given = of(input!);
    const expected = of(result!);
    const { channels } = expected;
    const whole = of(`whole_${result}`).data;
    const codeImage = (size: TiledSize, input: Float32Array) =>
      code(device, vae.weights, input, trace(klCodec(vae), size));
    try {
      await vae.weights.upload(device);
      const own = await codeImage(TILED, given.data);
      const tiles = tilesOf(TILED.height, TILED.width, TILED.tileSide);
      assert.equal(tiles.length, 4);
      // The reference adds a quarter of a tile at the far edges.
      const [side, shared] = [TILED.width * resultScale, 12 * resultScale];
      const joined = new Float32Array(own.length);
      for (const tile of tiles) {
        const part = crop(given.data, scaleTile(tile, inputScale), [
          TILED.width * inputScale,
          given.channels,
        ]);
        const size = { height: 8, width: 8, tileSide: 8 };
        const values = await codeImage(size, part);
        const scaled = scaleTile(tile, resultScale);
        const shares = [scaled, { rows: scaled.columns, columns: scaled.rows }]
          .map(referenceShares) as [number[], number[]];
        values.forEach((value, i) => {
          const [y, x] = [
            Math.floor(i / channels / scaled.columns.size),
            Math.floor(i / channels) % scaled.columns.size,
          ];
          const at = ((scaled.rows.start + y) * side + scaled.columns.start + x) * channels +
            i % channels;
          joined[at]! += value * shares[0][y]! * shares[1][x]!;
        });
      }
      const isSeam = (position: number) =>
        position >= 6 * resultScale && position < 8 * resultScale;
      let same = 0;
      expected.data.forEach((value, i) => {
        const [y, x] = [Math.floor(i / channels / side), Math.floor(i / channels) % side];
        if (y >= shared || x >= shared) return;
        // Where four tiles meet, the reference mixes the first one in twice.
        if (isSeam(y) && isSeam(x)) return;
        assert.ok(
          Math.abs(joined[i]! - value) < TILE_GATE,
          `by the reference's shares: ${i}: ${joined[i]}, ${value}`,
        );
        if (isSeam(y) || isSeam(x)) return;
        same++;
        assert.ok(Math.abs(own[i]! - value) < TILE_GATE, `element ${i} is ${own[i]}, not ${value}`);
      });
      assert.equal(same, (10 * resultScale) ** 2 * channels);
      const far = (values: Float32Array) =>
        Math.hypot(...values.map((value, i) => value - whole[i]!)) / Math.hypot(...whole);
      const [ownFar, referenceFar] = [far(own), far(expected.data)];
      if (Deno.env.has("DENOISE_SHOW_ERRORS")) console.log(ownFar, referenceFar);
      assert.ok(ownFar < referenceFar, `${ownFar} from the whole, the reference ${referenceFar}`);
    } finally {
      vae.weights.destroy();
      device.destroy();
    }
  });
}

/** Discs and stripes of plain colours, as the bundled model draws them, one pixel further in every frame. */
function drawing(width: number, height: number, frame: number): Uint8Array {
  return Uint8Array.from({ length: width * height * 3 }, (_, i) => {
    const [c, x, y] = [
      i % 3,
      Math.floor(i / 3) % width - 2 * frame,
      Math.floor(i / 3 / width) - frame,
    ];
    const isDisc = (x % 64 - 30) ** 2 + (y % 64 - 30) ** 2 < 300;
    return [[230, 40, 30], [40, 70, 200 - (y >> 6) * 40]][isDisc ? 0 : 1]![c]!;
  });
}

/** Longest side of a tile in latents, as in the bundled model's images; real ones have 32 at least. */
const TILE = 12;
/** Least PSNR of tiled latents, and of tiled pixels, to whole ones, in decibels. */
const MIN_PSNR = { latents: 24, pixels: 34 };

Deno.test({
  name:
    "traceVideoEncoder() and videoDecoder() in tiles come near the whole, with the bundled model's autoencoder; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: async () => {
    const device = await openTestDevice();
    const folder = fileURLToPath(new URL("../../models/bundled", import.meta.url));
    using parts = await openParts(await openModelFiles(folder), WAN_PARTS);
    const { vae } = parts;
    const size = { frames: 2, height: 18, width: TILE };
    const video = Array.from({ length: 5 }, (_, i) => drawing(8 * size.width, 8 * size.height, i));
    const encode = async (tileSide: number): Promise<Float32Array> => {
      let latents = new Float32Array();
      await runSession(device, vae.weights, (session) => {
        const encoder = traceVideoEncoder(session, wanVideoCodec(vae), { ...size, tileSide });
        const stage = session.stage("decode");
        const read = stage.program(
          "read",
          { x: encoder.latents },
          ({ x }) => unscaleLatents(vae, x),
        );
        stage.willRead(read.outputs);
        return async (work) => {
          await encoder.run({ run: work.run, encodeDone: () => {} } as Work, video);
          await work.run([read.call({})], {
            reads: [read.outputs],
            finished: ([values]) => void (latents = Float32Array.from(values!)),
          });
        };
      });
      return latents;
    };
    const decode = (tileSide: number, latents: Float32Array) =>
      code(device, vae.weights, latents, videoDecoder(wanVideoCodec(vae), { ...size, tileSide }));
    try {
      await vae.weights.upload(device);
      const latents = await encode(size.height);
      const inTiles = psnr(await encode(TILE), latents);
      assert.ok(inTiles > MIN_PSNR.latents, `latents: ${inTiles} dB`);
      const unit = (pixels: Float32Array) =>
        pixels.map((value) => Math.min(1, Math.max(0, value / 2 + 0.5)));
      const pixels = unit(await decode(size.height, latents));
      const decibels = psnr(unit(await decode(TILE, latents)), pixels);
      assert.ok(decibels > MIN_PSNR.pixels, `pixels: ${decibels} dB`);
    } finally {
      vae.weights.destroy();
      device.destroy();
    }
  },
});
