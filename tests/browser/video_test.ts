/** Videos of a tab: frames, and files by WebCodecs. */
import assert from "node:assert/strict";
import { findFfmpeg, probeVideo, readVideo, writeVideo } from "../../media/video/mod.ts";
import { browserTest, openSite } from "./tab.ts";

const SHAPE = { width: 96, height: 96, fps: 8 };

/** Decodes a file as this program reads videos. */
async function decode(
  base64: string,
  ending: string,
): Promise<{ frames: Uint8Array[]; audioCodec: string | undefined }> {
  const path = await Deno.makeTempFile({ suffix: ending });
  try {
    await Deno.writeFile(path, Uint8Array.fromBase64(base64));
    const ffmpeg = await findFfmpeg();
    const info = await probeVideo(ffmpeg, path);
    assert.deepEqual([info.width, info.height, info.fps], [96, 96, 8]);
    const frames = await Array.fromAsync(
      readVideo(ffmpeg, path, info, { ...SHAPE, maxFrames: 9 }),
    );
    return { frames, audioCodec: info.audioCodec };
  } finally {
    await Deno.remove(path);
  }
}

/** In decibels. */
function psnr(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i]! - b[i]!) ** 2;
  return 10 * Math.log10(255 ** 2 / (sum / a.length));
}

for (const browser of ["firefox", "chromium"] as const) {
  browserTest(
    `${browser} makes a video, as frames, MP4 and WebM, says what it cannot encode, and plays the file`,
    browser,
    async () => {
      await using site = await openSite();
      const { frames, files, played, refused } = await site.run(
        browser,
        `
        const { GeneratedVideo, loadModel } = await import("./denoise.js");
        const model = await loadModel();
        const video = await model.generateVideo({
          prompt: "a red heart", seed: 7, numInferenceSteps: 4, numFrames: 5, fps: 8,
        });
        await model.close();
        const base64 = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
        const files = {};
        const blobs = {};
        for (const [name, options] of Object.entries({
          mp4: {}, fine: { quality: 90 }, webm: { format: "webm", quality: 90 },
        })) {
          blobs[name] = await video.toBlob(options);
          files[name] = { type: blobs[name].type, data: base64(new Uint8Array(await blobs[name].arrayBuffer())) };
        }
        const { recipe, frames, fps } = video;
        const tone = Float32Array.from({ length: 20_000 }, (_, i) => Math.sin(i / 10) / 2);
        const audio = { sampleRate: 48_000, channels: [tone, tone] };
        const loud = new GeneratedVideo({ recipe, frames, fps, audio });
        for (const format of ["mp4", "webm"]) {
          const blob = await loud.toBlob({ format });
          files["loud " + format] = { type: blob.type, data: base64(new Uint8Array(await blob.arrayBuffer())) };
        }
        const player = document.createElement("video");
        player.muted = true;
        player.src = URL.createObjectURL(blobs.mp4);
        await new Promise((resolve, reject) => {
          player.onended = resolve;
          player.onerror = () => reject(new Error(player.error.message));
          document.body.append(player);
          player.play();
        });
        const outcome = (work) => work.then(() => "done", ({ message }) => message);
        const refused = [await outcome(video.save("heart.mp4")), await outcome(video.toBlob({ quality: 101 }))];
        VideoEncoder.isConfigSupported = () => Promise.resolve({ supported: false });
        delete globalThis.VideoEncoder;
        refused.push(await outcome(video.toBlob()));
        return {
          frames: video.frames.map((frame) => base64(frame)),
          files,
          played: [player.videoWidth, player.videoHeight, player.duration],
          refused,
        };
      `,
        { limitMs: 600_000 },
      ) as {
        frames: string[];
        files: Record<
          "mp4" | "fine" | "webm" | "loud mp4" | "loud webm",
          { type: string; data: string }
        >;
        played: number[];
        refused: string[];
      };
      const made = frames.map((frame) => Uint8Array.fromBase64(frame));
      assert.equal(made.length, 5);
      for (const [name, { type, data }] of Object.entries(files)) {
        const ending = type.replace("video/", ".");
        assert.equal(ending, name.endsWith("webm") ? ".webm" : ".mp4");
        const { frames: decoded, audioCodec } = await decode(data, ending);
        assert.match(audioCodec ?? "none", name.startsWith("loud") ? /^(?:aac|opus)$/ : /^none$/);
        assert.equal(decoded.length, made.length, name);
        const found = decoded.map((frame, i) => psnr(frame, made[i]!));
        const least = ["mp4", "loud mp4", "loud webm"].includes(name) ? 30 : 34;
        assert.ok(Math.min(...found) > least, `${name}: ${found} dB, not over ${least}`);
      }
      assert.ok(files.fine.data.length > 1.5 * files.mp4.data.length);
      assert.deepEqual(played.slice(0, 2), [96, 96]);
      assert.ok(Math.abs(played[2]! - 5 / 8) < 0.05, `it lasts ${played[2]} s`);
      assert.match(
        refused[0]!,
        /^Cannot write heart.mp4: a browser tab has no file system; use toBlob/,
      );
      assert.match(refused[1]!, /101/);
      assert.match(
        refused[2]!,
        /^Cannot encode the video: this browser does not encode H.264 of 96x96; ask for the format webm, or take the frames/,
      );
    },
    true,
  );
}

for (const browser of ["firefox", "chromium"] as const) {
  browserTest(
    `${browser} reads video files as Deno does, at their rate and another, changes one, and says what it cannot read`,
    browser,
    async () => {
      const colours = [[200, 40, 40], [40, 200, 40], [40, 40, 200], [200, 200, 40]];
      const made = colours.flatMap((colour) => [colour, colour]).map((colour, k) =>
        Uint8Array.from(
          { length: 96 * 96 * 3 },
          (_, i) => colour[i % 3]! + (Math.floor(i / 3) % 96 > 8 * k ? 30 : 0),
        )
      );
      const path = await Deno.makeTempFile({ suffix: ".mp4" });
      const ffmpeg = await findFfmpeg();
      const writer = writeVideo(ffmpeg, { path, ...SHAPE, crf: 12 });
      for (const frame of made) await writer.write(frame);
      await writer.finish();
      const info = await probeVideo(ffmpeg, path);
      const slow = { ...SHAPE, fps: 3, maxFrames: 9 };
      const expected = await Array.fromAsync(readVideo(ffmpeg, path, info, slow));
      const bytes = await Deno.readFile(path);
      await Deno.remove(path);
      await using site = await openSite();
      site.add("/clip.mp4", bytes);
      const found = await site.run(
        browser,
        `
        const { loadModel, videoFrames } = await import("./denoise.js");
        const base64 = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
        const clip = await (await fetch("./clip.mp4")).blob();
        const whole = await videoFrames(clip);
        const slow = await videoFrames(clip, { fps: 3, maxFrames: 9 });
        const refused = await videoFrames(new Blob(["no video"])).then(() => "read", ({ message }) => message);
        const model = await loadModel();
        const changed = await model.generateVideo({
          prompt: "a red heart", seed: 7, numInferenceSteps: 4, taskType: "V2V", strength: 0.5, video: whole.slice(0, 5),
        });
        await model.close();
        return {
          whole: whole.map(({ data }) => base64(data)),
          slow: slow.map(({ data }) => base64(data)),
          changed: [changed.frames.length, changed.width, changed.height],
          refused,
        };
      `,
        { limitMs: 600_000 },
      ) as { whole: string[]; slow: string[]; changed: number[]; refused: string };
      const check = (frames: string[], wanted: readonly Uint8Array[]) => {
        const read = frames.map((frame) => Uint8Array.fromBase64(frame));
        assert.equal(read.length, wanted.length);
        const least = Math.min(...read.map((frame, i) => psnr(frame, wanted[i]!)));
        assert.ok(least > 30, `${least} dB, not over 30`);
      };
      check(found.whole, made);
      check(found.slow, expected);
      assert.deepEqual(found.changed, [5, 96, 96]);
      assert.match(found.refused, /^Cannot read video: it is of no known format/);
    },
    true,
  );
}
