/**
 * Damaged images and videos, read as a server reads those of its clients: each gives what was asked
 * for or a refusal that names its fault, in time, and the process that reads it goes on.
 */

import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import fc from "fast-check";
import goldens from "../goldens/media/images.json" with { type: "json" };
import { ImageError } from "../../media/image.ts";
import { fitForeignImage, inspectForeignImage } from "../../media/isolated/images.ts";
import { decodePng } from "../../media/png_decode.ts";
import { bundledFfmpeg, systemFfmpeg } from "../../media/video/find_ffmpeg.ts";
import { type Ffmpeg, probeVideo, readVideo, VideoError } from "../../media/video/mod.ts";
import { makeVideo } from "../support/hostile_videos.ts";
import { gif, interlacedPng, plainWebp, scannedJpeg } from "../support/hostile_images.ts";

const isSlow = Deno.env.has("DENOISE_SLOW");

/** Always the same files, beside those that are new with each run. */
const SEED = 19;

/** Most pixels of an image here: larger ones are refused, so that thousands are read in minutes. */
const MAX_PIXELS = 2 ** 20;

/** Longest time for an image and for a video, in milliseconds; the machine may be busy. */
const IMAGE_MS = 5000;
const VIDEO_MS = 20_000;

const IMAGES = [
  ...goldens.cases.map(({ file }) => Uint8Array.fromBase64(file)),
  ...[plainWebp(300, 200), scannedJpeg(64, 64, 9), gif([60, 40], [60, 40], true)],
  interlacedPng(70, 50, 6, 16),
];

/** Containers and codecs of the videos, as arguments of FFmpeg. */
const VIDEOS = [
  ...["-c:v libx264 -f mp4", "-c:v libx264 -f matroska", "-c:v mpeg4 -f avi", "-c:v png -f mov"],
  ...["-c:v gif -f gif", "-c:v mpeg2video -r 25 -f mpegts", "-c:v mjpeg -f mov"],
].map((args) => args.split(" "));

/** A place of a file, what is cut out there, and what is put in. */
interface Change {
  readonly at: number;
  readonly cut: number;
  readonly put: Uint8Array | readonly number[];
}

/** Numbers that mean something to readers: none, the least, the largest, and signs turned. */
const NUMBERS = [
  ...[[0], [1], [0x7f], [0x80], [0xff], [0, 0], [0xff, 0xff], [0x7f, 0xff], [0, 0, 0, 0]],
  ...[[0xff, 0xff, 0xff, 0xff], [0x7f, 0xff, 0xff, 0xff], [0x80, 0, 0, 0], [0, 0, 0, 1]],
  ...[[0xff, 0xff, 0xff, 0x7f], [0, 0, 0x40, 0], [0x1f, 0x40], [0x40, 0x1f]],
];

const change: fc.Arbitrary<Change> = fc.oneof(
  { weight: 4, arbitrary: overwrite(fc.uint8Array({ minLength: 1, maxLength: 3 })) },
  { weight: 4, arbitrary: overwrite(fc.constantFrom(...NUMBERS)) },
  fc.record({ at: fc.nat(), cut: fc.nat(64), put: fc.uint8Array({ maxLength: 16 }) }),
  fc.record({ at: fc.nat(), cut: fc.constant(Infinity), put: fc.constant([]) }),
);

function overwrite(put: fc.Arbitrary<Uint8Array | readonly number[]>): fc.Arbitrary<Change> {
  // Containers keep what counts at the beginning.
  const at = fc.oneof(fc.nat(), fc.nat(100));
  return fc.tuple(at, put).map(([at, put]) => ({ at, cut: put.length, put }));
}

function changed(file: Uint8Array, changes: readonly Change[]): Uint8Array<ArrayBuffer> {
  return changes.reduce((bytes, { at, cut, put }) => {
    const start = at % (bytes.length + 1);
    return Uint8Array.from([...bytes.subarray(0, start), ...put, ...bytes.subarray(start + cut)]);
  }, Uint8Array.from(file));
}

/** Makes the checksums of a PNG right, so that damage gets behind them. */
function withChecksums(file: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const view = new DataView(file.buffer);
  for (let at = 8; at + 12 <= file.length;) {
    const end = at + 8 + view.getUint32(at);
    if (end + 4 > file.length) break;
    view.setUint32(end, crc32(file.subarray(at + 4, end)));
    at = end + 4;
  }
  return file;
}

const isPng = (file: Uint8Array) => file[1] === 0x50 && file[2] === 0x4e && file[3] === 0x47;

const image = fc.record({
  seed: fc.constantFrom(...IMAGES),
  changes: fc.array(change, { minLength: 1, maxLength: 4 }),
  mendsChecksums: fc.boolean(),
}).map(({ seed, changes, mendsChecksums }) => {
  const file = changed(seed, changes);
  return mendsChecksums && isPng(file) ? withChecksums(file) : file;
});

/** What a server makes of an image. */
async function takeImage(file: Uint8Array): Promise<"taken" | "refused"> {
  const limits = { maxPixels: MAX_PIXELS, timeoutMs: IMAGE_MS };
  try {
    const info = await inspectForeignImage(file, limits);
    assert.ok(info.width * info.height <= MAX_PIXELS);
    const { bytes: png } = await fitForeignImage(
      file,
      info,
      { cover: { width: 8, height: 6 } },
      limits,
    );
    const { width, height } = decodePng(png);
    assert.deepEqual([width, height], [8, 6]);
    return "taken";
  } catch (error) {
    assert.ok(error instanceof ImageError, `${(error as Error).stack}`);
    assert.match(error.message, /^Cannot read [^\n]{1,400}$/);
    // Of these an image of that size gives no reason.
    assert.doesNotMatch(error.message, /decoding it failed|more memory|it took more/);
    return "refused";
  }
}

/** What a server makes of a video. */
async function takeVideo(ffmpeg: Ffmpeg, path: string): Promise<"taken" | "refused"> {
  const start = performance.now();
  try {
    const info = await probeVideo(ffmpeg, path);
    const frames: number[] = [];
    const wanted = { width: 16, height: 16, fps: 8, maxFrames: 5 };
    for await (const frame of readVideo(ffmpeg, path, info, wanted)) frames.push(frame.length);
    assert.ok(frames.length > 0 && frames.length <= 5, `${frames.length} frames`);
    assert.ok(frames.every((length) => length === 16 * 16 * 3));
    return "taken";
  } catch (error) {
    assert.ok(error instanceof VideoError, `${(error as Error).stack}`);
    assert.match(error.message, /^Cannot read video: /);
    return "refused";
  } finally {
    assert.ok(performance.now() - start < VIDEO_MS, "it took too long");
  }
}

const images = (count: number, seed?: number) => async () => {
  const seen = { taken: 0, refused: 0 };
  const parameters = { numRuns: count, ...(seed === undefined ? {} : { seed }) };
  await fc.assert(
    fc.asyncProperty(image, async (file) => {
      seen[await takeImage(file)]++;
    }),
    parameters,
  );
  for (const [outcome, times] of Object.entries(seen)) assert.ok(times > 0, `none is ${outcome}`);
};

const videos = (ffmpeg: Ffmpeg, count: number, seed?: number) => async () => {
  const folder = await Deno.makeTempDir();
  try {
    const seeds: Uint8Array[] = [];
    for (const args of VIDEOS) {
      const path = `${folder}/seed`;
      await makeVideo(ffmpeg, path, 3, ...args);
      assert.equal(await takeVideo(ffmpeg, path), "taken", args.join(" "));
      seeds.push(await Deno.readFile(path));
    }
    const video = fc.tuple(
      fc.constantFrom(...seeds),
      fc.array(change, { minLength: 1, maxLength: 4 }),
    ).map(([seed, changes]) => changed(seed, changes));
    const seen = { taken: 0, refused: 0 };
    const path = `${folder}/video`;
    await fc.assert(
      fc.asyncProperty(video, async (file) => {
        await Deno.writeFile(path, file);
        seen[await takeVideo(ffmpeg, path)]++;
      }),
      { numRuns: count, ...(seed === undefined ? {} : { seed }) },
    );
    for (const [outcome, times] of Object.entries(seen)) assert.ok(times > 0, `none is ${outcome}`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
};

const system = await systemFfmpeg("ffmpeg");

Deno.test("a server takes or refuses every damaged image", images(150));

for (const [seeds, seed] of [["new", undefined], ["fixed", SEED]] as const) {
  Deno.test({
    name: `each damaged image of 4500 is taken or refused, seeds ${seeds}; with DENOISE_SLOW`,
    ignore: !isSlow,
    fn: images(4500, seed),
  });
  Deno.test({
    // Without the program the same is seen of the build that is always there.
    name: `each damaged video of 500 is taken or refused, seeds ${seeds}; with DENOISE_SLOW`,
    ignore: !isSlow || !system,
    fn: videos(system!, 500, seed),
  });
  Deno.test({
    name: `… of 20, by the bundled FFmpeg, seeds ${seeds}; with DENOISE_SLOW`,
    ignore: !isSlow,
    fn: videos(bundledFfmpeg(), 20, seed),
  });
}
