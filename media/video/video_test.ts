import assert from "node:assert/strict";
import { makeGap, makeHugeFrame, makeVideo } from "../../tests/support/hostile_videos.ts";
import { tone } from "../../tests/fakes/engine.ts";
import { type Ffmpeg, FfmpegError } from "./ffmpeg.ts";
import { bundledFfmpeg, findFfmpeg, systemFfmpeg } from "./find_ffmpeg.ts";
import { Listing, probeVideo } from "./probe.ts";
import { readVideo } from "./read.ts";
import { checkVideoWork, VideoError } from "./video_work.ts";
import { crfOfQuality, X264_PRESETS } from "./quality.ts";
import { writeVideo, type WriteVideoOptions } from "./write.ts";

const SYSTEM = await systemFfmpeg("ffmpeg");
const BUILDS = [
  { name: SYSTEM ? "system" : "skipped: no ffmpeg on this system", ffmpeg: SYSTEM },
  { name: "wasm", ffmpeg: bundledFfmpeg() },
];
const SIZE = { width: 48, height: 32 };
const FRAME_BYTES = SIZE.width * SIZE.height * 3;

/** A frame of one colour per half: a shade that names it at the left, red at the right. */
function frame(index: number): Uint8Array {
  const bytes = new Uint8Array(FRAME_BYTES);
  for (let i = 0; i < FRAME_BYTES / 3; i++) {
    const isLeft = i % SIZE.width < SIZE.width / 2;
    bytes.set(isLeft ? [20 * index, 20 * index, 20 * index] : [200, 30, 30], 3 * i);
  }
  return bytes;
}

/** Two channels of 24 000 samples per second, from the time 0 on: encoders begin before it. */
async function readSound(ffmpeg: Ffmpeg, path: string): Promise<[Float32Array, Float32Array]> {
  const stream = ffmpeg.decode({
    inputs: [path],
    arguments: ({ inputs, output }) => [
      ...["-copyts", "-i", inputs[0]!, "-map", "0:a:0", "-af", "atrim=start=0"],
      ...["-f", "f32le", "-c:a", "pcm_f32le", output],
    ],
  });
  const all = new Float32Array(
    await new Response(stream as ReadableStream<Uint8Array<ArrayBuffer>>).arrayBuffer(),
  );
  const channel = (first: number) =>
    Float32Array.from({ length: all.length / 2 }, (_, i) => all[2 * i + first]!);
  return [channel(0), channel(1)];
}

async function inFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

for (const { name, ffmpeg } of BUILDS) {
  // Without the program the same is seen of the build that is always there.
  const ignore = ffmpeg === undefined;
  const make = async (path: string, frames: number, more: Partial<WriteVideoOptions> = {}) => {
    const writer = writeVideo(ffmpeg!, { path, ...SIZE, fps: 12, crf: 10, ...more });
    for (let i = 0; i < frames; i++) await writer.write(frame(i));
    await writer.finish();
  };
  const shades = async (path: string, options: { fps?: number; maxFrames?: number } = {}) => {
    const info = await probeVideo(ffmpeg!, path);
    const bounds = { maxFrames: 100, ...SIZE, ...options };
    const seen: number[] = [];
    for await (const bytes of readVideo(ffmpeg!, path, info, bounds)) {
      seen.push(bytes[3 * (SIZE.width * 10 + 5)]!);
    }
    return seen;
  };

  Deno.test(
    `writeVideo() and readVideo() keep frames, order and rate (${name})`,
    { ignore },
    () =>
      inFolder(async (folder) => {
        const path = `${folder}/video with spaces.mp4`;
        await make(path, 9);
        assert.deepEqual(await probeVideo(ffmpeg!, path), { ...SIZE, frames: 9, fps: 12 });
        const seen = await shades(path);
        assert.equal(seen.length, 9);
        seen.forEach((shade, i) => assert.ok(Math.abs(shade - 20 * i) <= 6, `${i}: ${shade}`));
      }),
  );

  Deno.test(
    `writeVideo() puts the index in front and tags BT.709 (${name})`,
    { ignore },
    () =>
      inFolder(async (folder) => {
        await make(`${folder}/video.mp4`, 3);
        const text = new TextDecoder("latin1").decode(await Deno.readFile(`${folder}/video.mp4`));
        assert.ok(text.indexOf("moov") < text.indexOf("mdat"), "the index comes after the data");
        const colours = text.indexOf("colrnclx");
        assert.ok(colours > 0, "no colour tags");
        const tags = [...text.slice(colours + 8, colours + 14)].map((c) => c.charCodeAt(0));
        assert.deepEqual(tags, [0, 1, 0, 1, 0, 1]);
      }),
  );

  Deno.test(
    `writeVideo() can be played while it writes, with its sound, where fragments are asked for (${name})`,
    { ignore },
    () =>
      inFolder(async (folder) => {
        const path = `${folder}/video.mp4`;
        const writer = writeVideo(ffmpeg!, {
          ...{ path, ...SIZE, fps: 12, crf: 30, isFragmented: true, seconds: 5 },
        });
        await writer.addAudio(tone(5));
        for (let i = 0; i < 30; i++) await writer.write(frame(i % 12));
        // Two seconds of five at least are there when two and a half are given: the encoder looks not far ahead.
        let written = "";
        for (const end = Date.now() + 20_000; Date.now() < end;) {
          written = await Deno.readFile(path).then(
            (bytes) => new TextDecoder("latin1").decode(bytes),
            () => "",
          );
          if (written.split("moof").length > 4) break;
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
        assert.ok(written.split("moof").length > 4, `${written.length} bytes are written`);
        assert.ok(written.indexOf("moov") < written.indexOf("moof"));
        for (let i = 30; i < 60; i++) await writer.write(frame(i % 12));
        await writer.finish();
        assert.deepEqual(await probeVideo(ffmpeg!, path), {
          ...{ ...SIZE, frames: 60, fps: 12, audioCodec: "aac" },
        });
        assert.equal((await shades(path)).length, 60);
      }),
  );

  Deno.test(
    `readVideo() resamples to a rate and stops at maxFrames (${name})`,
    { ignore },
    () =>
      inFolder(async (folder) => {
        await make(`${folder}/video.mp4`, 12);
        assert.equal((await shades(`${folder}/video.mp4`, { fps: 6 })).length, 6);
        assert.equal((await shades(`${folder}/video.mp4`, { maxFrames: 5 })).length, 5);
      }),
  );

  Deno.test(
    `probeVideo() refuses what is no video, and playlists (${name})`,
    { ignore },
    () =>
      inFolder(async (folder) => {
        await make(`${folder}/video.mp4`, 3);
        const list = `#EXTM3U\n#EXTINF:1,\nfile://${folder}/video.mp4\n#EXT-X-ENDLIST\n`;
        const bad = ["", "no video at all", list, `ffconcat version 1.0\nfile video.mp4\n`];
        for (const [i, text] of bad.entries()) {
          await Deno.writeTextFile(`${folder}/bad${i}.mp4`, text);
          await assert.rejects(probeVideo(ffmpeg!, `${folder}/bad${i}.mp4`), VideoError, text);
        }
        const half = (await Deno.readFile(`${folder}/video.mp4`)).slice(0, 400);
        await Deno.writeFile(`${folder}/half.mp4`, half);
        await assert.rejects(shades(`${folder}/half.mp4`), VideoError);
      }),
  );

  Deno.test(
    `writeVideo() stops at its signal and says why it failed (${name})`,
    { ignore },
    () =>
      inFolder(async (folder) => {
        const controller = new AbortController();
        const path = `${folder}/video.mp4`;
        const writer = writeVideo(ffmpeg!, {
          path,
          ...SIZE,
          fps: 12,
          crf: 10,
          signal: controller.signal,
        });
        await writer.write(frame(0));
        controller.abort(new DOMException("enough", "AbortError"));
        await assert.rejects(writer.finish(), { name: "AbortError" });
        await assert.rejects(make(`${folder}/video.mp4`, 1, { fps: -1 }), FfmpegError);
      }),
  );
}

for (const { name: build, ffmpeg } of BUILDS) {
  // What FFmpeg makes of rare files is its own affair: one build is enough where time counts.
  const isSlow = build === "wasm" && SYSTEM !== undefined;
  const name = isSlow ? `${build}; with DENOISE_SLOW` : build;
  const ignore = ffmpeg === undefined || isSlow && !Deno.env.has("DENOISE_SLOW");

  for (const isFragmented of [false, true]) {
    Deno.test(
      `writeVideo() keeps the sound in step, ${isFragmented ? "in fragments" : "whole"} (${name})`,
      { ignore },
      () =>
        inFolder(async (folder) => {
          const path = `${folder}/video.mp4`;
          const sound = tone(1.4);
          const shape = { path, ...SIZE, fps: 12, crf: 30, isFragmented };
          const writer = writeVideo(ffmpeg!, { ...shape, seconds: 2 });
          await writer.addAudio(sound);
          for (let i = 0; i < 24; i++) await writer.write(frame(i % 12));
          await assert.rejects(writer.addAudio(sound), /frames went before/);
          await writer.finish();
          const { frames, fps, audioCodec } = await probeVideo(ffmpeg!, path);
          assert.deepEqual([frames, fps, audioCodec], [24, 12, "aac"]);
          const [left, right] = await readSound(ffmpeg!, path);
          const length = left!.length;
          // AAC comes in pieces of 1024 samples.
          assert.ok(Math.abs(length - 2 * 24_000) <= 2 * 1024, `${length} samples`);
          // AAC of 128 kbit/s: far closer to its own channel than to the other, and silent at the end.
          const error = (is: Float32Array, of: Float32Array) =>
            of.reduce((sum, value, i) => sum + (is[i]! - value) ** 2, 0) / of.length;
          for (const [i, is] of [left!, right!].entries()) {
            const worst = error(is, sound.channels[i]!);
            assert.ok(worst < 1e-4, `channel ${i}: ${worst}`);
            assert.ok(is.subarray(1.5 * 24_000).every((value) => Math.abs(value) < 1e-3));
          }
        }),
    );
  }

  Deno.test(
    `readVideo() does not fill a gap of years with frames (${name})`,
    { ignore },
    () =>
      inFolder(async (folder) => {
        const path = `${folder}/gap.mkv`;
        await makeGap(ffmpeg!, path);
        const message = /it lasts \d+ s by its time stamps, and at most 86400 s are allowed/;
        await assert.rejects(probeVideo(ffmpeg!, path), message);
        // As a file would be taken whose listing had hidden the gap.
        const info = { width: 64, height: 64, frames: 3, fps: 1 };
        const shades: number[] = [];
        for await (
          const frame of readVideo(ffmpeg!, path, info, { ...SIZE, fps: 8, maxFrames: 5 })
        ) {
          shades.push(frame[0]!);
        }
        assert.equal(shades.length, 5);
        assert.equal(new Set(shades).size, 1, "the first frame, five times");
      }),
  );

  const first = async (path: string, size: { width: number; height: number }) => {
    const info = await probeVideo(ffmpeg!, path);
    const [frame] = await Array.fromAsync(
      readVideo(ffmpeg!, path, info, { ...size, maxFrames: 1 }),
    );
    return { info, frame: frame! };
  };

  Deno.test(
    `readVideo() makes squares of pixels that are none (${name})`,
    { ignore },
    () =>
      inFolder(async (folder) => {
        const path = `${folder}/anamorphic.mkv`;
        // A white square of 16 by 16 as it is shown, at (8, 8): half as wide as it is stored.
        const box = "drawbox=4:8:8:16:white:fill,setsar=2";
        const filter = `scale=32:64,${box}`;
        await makeVideo(ffmpeg!, path, 1, "-vf", filter, "-c:v", "ffv1", "-f", "matroska");
        const { info, frame } = await first(path, { width: 64, height: 64 });
        assert.deepEqual([info.width, info.height, info.pixelAspect], [64, 64, 2]);
        const white = (x: number, y: number) => frame[3 * (64 * y + x)]! > 128;
        assert.ok(white(10, 10) && white(21, 21), "inside");
        assert.ok(!white(5, 10) && !white(27, 10) && !white(10, 5) && !white(10, 27), "outside");
      }),
  );

  Deno.test(
    `readVideo() gives BT.709's colours of other primaries, and refuses HDR (${name})`,
    { ignore },
    () =>
      inFolder(async (folder) => {
        const path = `${folder}/wide.mkv`;
        const make = (primaries: string, transfer: string) =>
          makeVideo(ffmpeg!, path, 1, ...[
            ...["-vf", "drawbox=0:0:64:64:0xb06040:fill,format=yuv444p", "-c:v", "ffv1"],
            ...["-color_primaries", primaries, "-color_trc", transfer, "-colorspace", "bt709"],
            ...["-f", "matroska"],
          ]);
        const colour = async () => [...(await first(path, SIZE)).frame.subarray(0, 3)];
        await make("bt709", "bt709");
        const own = await colour();
        await make("smpte432", "iec61966-2-1");
        const [red, green, blue] = await colour();
        // Display P3's (176, 96, 64) is (188, 91, 55) in sRGB, by LittleCMS.
        for (const [i, value] of [188, 91, 55].entries()) {
          const seen = [red!, green!, blue!][i]! + [176, 96, 64][i]! - own[i]!;
          assert.ok(Math.abs(seen - value) <= 4, `${[red, green, blue]}, untagged ${own}`);
        }
        await make("bt2020", "smpte2084");
        await assert.rejects(
          probeVideo(ffmpeg!, path),
          /Cannot use the video: its colours are .* bt2020 .* smpte2084, as of HDR; convert it/,
        );
      }),
  );

  for (
    const [container, ...codec] of [
      ["webm", "-c:v", "libvpx-vp9", "-pix_fmt", "yuva420p", "-crf", "10", "-b:v", "1M"],
      ["mov", "-c:v", "qtrle", "-pix_fmt", "argb"],
    ] as const
  ) {
    Deno.test(
      `readVideo() lays what is transparent on white, ${container} (${name})`,
      { ignore },
      () =>
        inFolder(async (folder) => {
          const path = `${folder}/alpha.${container}`;
          // Magenta, opaque at the left, transparent at the right.
          const filter = "drawbox=0:0:64:64:magenta:fill,format=rgba,geq=r='r(X,Y)':g='g(X,Y)':" +
            "b='b(X,Y)':a='if(lt(X,32),255,0)'";
          await makeVideo(ffmpeg!, path, 1, "-vf", filter, ...codec, "-f", container);
          const { frame } = await first(path, { width: 64, height: 64 });
          const at = (x: number) => [...frame.subarray(3 * (64 * 20 + x), 3 * (64 * 20 + x) + 3)];
          assert.ok(
            at(10).every((value, i) => Math.abs(value - [255, 0, 255][i]!) < 12),
            `${at(10)}`,
          );
          assert.deepEqual(at(50), [255, 255, 255]);
        }),
    );
  }

  Deno.test(
    `probeVideo() says that a file has sound alone (${name})`,
    { ignore },
    () =>
      inFolder(async (folder) => {
        const path = `${folder}/sound.mp4`;
        await makeVideo(ffmpeg!, path, 0, ...[
          ...["-f", "lavfi", "-i", "sine=d=1", "-map", "1:a", "-c:a", "aac", "-f", "mp4"],
        ]);
        await assert.rejects(probeVideo(ffmpeg!, path), {
          message: "Cannot use the video: it has sound and no picture",
        });
      }),
  );

  Deno.test(
    `readVideo() repeats the frames of an AVI that counts in seconds (${name})`,
    { ignore },
    () =>
      inFolder(async (folder) => {
        const path = `${folder}/slow.avi`;
        await makeVideo(ffmpeg!, path, 3, "-c:v", "mpeg4", "-f", "avi");
        const info = { width: 64, height: 64, frames: 3, fps: 1 };
        const shades: number[] = [];
        const options = { ...SIZE, fps: 4, maxFrames: 7 };
        for await (const frame of readVideo(ffmpeg!, path, info, options)) shades.push(frame[0]!);
        assert.equal(shades.length, 7);
        // Frames of the shades 0 and 40, one per second.
        assert.ok(shades.every((shade, i) => (shade > 20) === (i >= 4)), shades.join());
      }),
  );

  Deno.test(
    `probeVideo() refuses frames that are larger than the file says (${name})`,
    { ignore },
    () =>
      inFolder(async (folder) => {
        const path = `${folder}/large.mov`;
        await makeHugeFrame(ffmpeg!, path);
        await assert.rejects(probeVideo(ffmpeg!, path), VideoError);
      }),
  );

  Deno.test(
    `writeVideo() takes no sound out of a playlist (${name})`,
    { ignore },
    () =>
      inFolder(async (folder) => {
        const sound = `${folder}/sound.mkv`;
        const pcm = ["-f", "s16le", "-ar", "8000", "-ac", "1", "-c:a", "pcm_s16le"];
        const sink = ffmpeg!.encode({
          inputs: [],
          arguments: ({ stdin, output }) => [
            ...pcm.slice(0, 6),
            ...["-i", stdin, "-c:a", "pcm_s16le", "-f", "matroska", output],
          ],
        }, sound);
        await sink.write(new Uint8Array(32_000));
        await sink.finish();
        const list = `${folder}/list.txt`;
        await Deno.writeTextFile(list, "ffconcat version 1.0\nfile sound.mkv\n");
        const write = async (path: string) => {
          const audio = { path, codec: "pcm_s16le", seconds: 0.5 };
          const video = { path: `${folder}/video.mp4`, ...SIZE, fps: 8, crf: 30, audio };
          const writer = writeVideo(ffmpeg!, video);
          for (let i = 0; i < 4; i++) await writer.write(frame(i));
          await writer.finish();
        };
        await write(sound);
        assert.equal((await probeVideo(ffmpeg!, `${folder}/video.mp4`)).audioCodec, "aac");
        await assert.rejects(write(list), FfmpegError);
      }),
  );

  Deno.test(
    `a call of FFmpeg that takes too long is over, and says so (${build})`,
    { ignore: ffmpeg === undefined },
    async () => {
      const stream = ffmpeg!.decode({
        inputs: [],
        limits: { memoryBytes: 1e9, timeoutMs: 700 },
        arguments: ({ output }) => [
          ...["-f", "lavfi", "-i", "color=s=64x64:r=1000:d=1000000"],
          ...["-f", "null", output],
        ],
      });
      // What it was asked for would take weeks.
      await assert.rejects(new Response(stream as ReadableStream<Uint8Array<ArrayBuffer>>).text(), {
        name: "FfmpegTimeError",
        message: "FFmpeg took more than 0.7 s",
      });
    },
  );
}

Deno.test("checkVideoWork() counts what has to be decoded for what is wanted", () => {
  const info = { width: 4096, height: 4096, frames: 5000, fps: 1000 };
  checkVideoWork(info, { fps: 8, maxFrames: 4 });
  checkVideoWork(info, { maxFrames: 512 });
  checkVideoWork({ ...info, width: 640, height: 480 }, { fps: 1, maxFrames: 5 });
  assert.throws(() => checkVideoWork(info, { fps: 1, maxFrames: 5 }), (error) => {
    assert.ok(error instanceof VideoError);
    assert.equal(
      error.message,
      "Cannot read video: 5000 frames of 4096x4096 would have to be decoded, and at most 512 of " +
        "that size are; scale it down or cut it first",
    );
    return true;
  });
});

Deno.test(
  "writeVideo() keeps the audio of another file",
  { ignore: !SYSTEM },
  () =>
    inFolder(async (folder) => {
      const source = `${folder}/source.mkv`;
      const { success } = await new Deno.Command("ffmpeg", {
        args:
          "-v error -f lavfi -i testsrc=s=48x32:r=12:d=3 -f lavfi -i sine=d=3 -c:v libx264 -c:a flac"
            .split(" ").concat(source),
      }).output();
      assert.ok(success);
      const { audioCodec } = await probeVideo(SYSTEM!, source);
      assert.equal(audioCodec, "flac");
      for (const ffmpeg of [SYSTEM!, bundledFfmpeg()]) {
        const path = `${folder}/video.mp4`;
        // Three seconds of sound, for one second of frames and for five.
        for (const [frames, isFragmented] of [[12, false], [60, false], [60, true]] as const) {
          const audio = { path: source, codec: audioCodec, seconds: frames / 12 };
          const writer = writeVideo(ffmpeg, {
            ...{ path, ...SIZE, fps: 12, crf: 20, preset: "ultrafast", audio, isFragmented },
          });
          for (let i = 0; i < frames; i++) await writer.write(frame(i % 12));
          await writer.finish();
          const info = await probeVideo(SYSTEM!, path);
          assert.equal(info.audioCodec, "aac");
          assert.equal(info.frames, frames);
        }
      }
    }),
);

Deno.test(
  "writeVideo() takes every preset, and lossless quality",
  { ignore: !SYSTEM },
  () =>
    inFolder(async (folder) => {
      for (const preset of X264_PRESETS) {
        const path = `${folder}/${preset}.mp4`;
        const writer = writeVideo(SYSTEM!, { path, ...SIZE, fps: 8, crf: 0, preset });
        await writer.write(frame(3));
        await writer.finish();
        assert.equal((await probeVideo(SYSTEM!, path)).frames, 1);
      }
    }),
);

Deno.test("writeVideo() refuses a frame of another size", async () => {
  const writer = writeVideo(bundledFfmpeg(), {
    path: "/no/such/folder/video.mp4",
    ...SIZE,
    fps: 8,
    crf: 0,
  });
  await assert.rejects(writer.write(new Uint8Array(5)), /Cannot add a frame of 5 bytes: 48x32/);
  await assert.rejects(writer.finish());
});

Deno.test("findFfmpeg() falls back to the bundled build", async () => {
  const { description } = await findFfmpeg({ program: "/no/such/program" });
  assert.match(description, /WebAssembly/);
  assert.match((await findFfmpeg({ onlyBundled: true })).description, /WebAssembly/);
});

function listed(text: string) {
  const listing = new Listing();
  // In parts that end anywhere.
  for (let at = 0; at < text.length; at += 7) listing.add(text.slice(at, at + 7));
  return listing.end();
}

Deno.test("Listing counts frames and averages their rate", () => {
  const text = `#tb 0: 1/1000\n#media_type 0: video\n#dimensions 0: 64x48\n#codec_id 1: aac
0, 0, 0, 40, 100, 0x1\n1, 0, 0, 23, 9, 0x1\n0, 40, 80, 40, 100, 0x1\n0, 80, 40, 40, 100, 0x1`;
  const expected = { width: 64, height: 48, frames: 3, fps: 25, audioCodec: "aac" };
  assert.deepEqual(listed(text), expected);
  assert.throws(() => listed("#tb 0: 1/25\n"), VideoError);
});

Deno.test("Listing refuses what is too large, too long or too fast, with numbers", () => {
  const packets = (size: string, duration: number, count = 2) =>
    `#tb 0: 1/10000\n#dimensions 0: ${size}\n` +
    Array.from({ length: count }, (_, i) => `0, 0, ${i * duration}, ${duration}, 9, 0x1\n`).join(
      "",
    );
  assert.equal(listed(packets("4096x4096", 400)).fps, 25);
  assert.equal(listed(packets("64x64", 10)).fps, 1000);
  for (
    const [text, message] of [
      [packets("4097x4096", 400), /are 4097x4096, and at most 16777216 pixels are allowed; scale/],
      [packets("64x64", 5e8), /it lasts 100000 s .* at most 86400 s are allowed; cut it first/],
      [packets("64x64", 5), /it has 2000 frames per second, and at most 1000 are allowed; lower/],
    ] as const
  ) {
    assert.throws(() => listed(text), message);
  }
});

Deno.test("crfOfQuality() gives the factors that the contract lists", () => {
  const listed = [[100, 0], [90, 5], [55, 22], [50, 25], [35, 33], [0, 51]] as const;
  for (const [quality, crf] of listed) assert.equal(crfOfQuality(quality), crf, `${quality}`);
});
