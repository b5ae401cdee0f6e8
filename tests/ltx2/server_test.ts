/** A server with a small LTX-2: videos with sound, as files and in fragments, and the sound alone. */
import assert from "node:assert/strict";
import { encodeImage } from "../../media/encode.ts";
import { findFfmpeg, probeVideo, readVideo } from "../../media/video/mod.ts";
import { encodeWav } from "../../media/waveform.ts";
import { startProcess } from "../e2e/server_process.ts";
import { Golden } from "../support/golden.ts";
import { withFolder } from "../support/safetensors.ts";

const FIELDS = {
  ...{ prompt: "a red circle", size: "64x64", num_frames: 9, fps: 8, seed: 7 },
  ...{ num_inference_steps: 2, guidance_scale: 1 },
};
/** Samples per second of the golden's vocoder, and the nearest that AAC has. */
const [RATE, AAC_RATE] = [6000, 7350];

/** What FFmpeg says of the tracks, and the seconds and the mean loudness of the sound. */
async function soundOf(
  path: string,
  rate: number,
): Promise<{ said: string; seconds: number; loudness: number }> {
  let said = "";
  const stream = (await findFfmpeg()).decode({
    inputs: [path],
    arguments: ({ inputs, output }) => [
      ...["-loglevel", "info", "-copyts", "-i", inputs[0]!, "-map", "0:a:0"],
      ...["-af", "atrim=start=0", "-ac", "1", "-f", "f32le", "-c:a", "pcm_f32le", output],
    ],
    onSaid: (text) => said = text,
  });
  const bytes = await new Response(stream as ReadableStream<Uint8Array<ArrayBuffer>>).arrayBuffer();
  const samples = new Float32Array(bytes);
  const loudness = Math.sqrt(samples.reduce((sum, value) => sum + value ** 2, 0) / samples.length);
  return { said, seconds: samples.length / rate, loudness };
}

/** Mistakes that only the model knows of are refused before a job, by the names of their fields. */
async function refuses(url: string): Promise<void> {
  const image = { width: 64, height: 64, data: new Uint8Array(64 * 64 * 3) };
  const cases = [
    [{ max_sequence_length: 7 }, "max_sequence_length", /^Cannot use a max_sequence_length of 7/],
    [{ image_strengths: [1, 1] }, "image_strengths", /^Cannot use 2 image_strengths for 1 images/],
    [{ image_frames: [9] }, "image_frames", /^Cannot place an image at frame 9/],
    [{ image_frames: [0, 8] }, "image_frames", /^Cannot use 2 image_frames for 1 images/],
    [{ size: "65x64" }, "size", /^Cannot generate 65x64/],
  ] as const;
  for (const [fields, param, message] of cases) {
    const isImage = param.startsWith("image_");
    const { bytes } = await encodeImage(image, { format: "png" });
    const input = isImage && {
      input_reference: `data:image/png;base64,${new Uint8Array(bytes).toBase64()}`,
    };
    const response = await fetch(`${url}/v1/videos`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...FIELDS, ...fields, ...input }),
    });
    const { error } = await response.json();
    assert.deepEqual([response.status, error?.param], [400, param], error?.message);
    assert.match(error.message, message);
  }
}

async function firstFrame(path: string): Promise<Uint8Array> {
  const ffmpeg = await findFfmpeg();
  const size = { width: 64, height: 64, maxFrames: 1 };
  for await (const frame of readVideo(ffmpeg, path, await probeVideo(ffmpeg, path), size)) {
    return frame;
  }
  throw new Error(`${path} has no frame`);
}

async function dataUrl(path: string): Promise<string> {
  return `data:video/mp4;base64,${(await Deno.readFile(path)).toBase64()}`;
}

Deno.test("denoise serve makes videos with the sound of LTX-2, the sound alone, and videos that follow a sound or a video", () =>
  withFolder({}, async (folder) => {
    const model = new Golden("ltx2/pipeline").folder;
    await using server = await startProcess(folder, ["--model-path", model, "--models", "named"]);
    let headers = new Headers();
    const make = async (fields: object): Promise<string> => {
      const response = await fetch(`${server.url}/v1/videos`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ ...FIELDS, ...fields }),
      });
      headers = response.headers;
      const { id } = await response.json();
      for (let isDone = false; !isDone;) {
        const { status, error } = await (await fetch(`${server.url}/v1/videos/${id}`)).json();
        assert.ok(["queued", "in_progress", "completed"].includes(status), error?.message);
        isDone = status === "completed";
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      const content = await fetch(`${server.url}/v1/videos/${id}/content`);
      const path = `${folder}/${id}.${content.headers.get("content-type")!.split("/")[1]}`;
      await Deno.writeFile(path, await content.bytes());
      return path;
    };
    await refuses(server.url);
    const path = await make({ fragmented: true });
    const { frames, fps, audioCodec } = await probeVideo(await findFfmpeg(), path);
    assert.deepEqual([frames, fps, audioCodec], [9, 8, "aac"]);
    const video = await soundOf(path, AAC_RATE);
    assert.match(video.said, new RegExp(`Audio: aac.*, ${AAC_RATE} Hz, stereo`));
    assert.ok(Math.abs(video.seconds - 9 / 8) < 2048 / AAC_RATE, `${video.seconds} s`);
    assert.ok(video.loudness > 0.01, `loudness ${video.loudness}`);
    const alone = await make({ output_format: "wav" });
    assert.match(alone, /\.wav$/);
    const { said, seconds, loudness } = await soundOf(alone, RATE);
    assert.match(said, new RegExp(`Audio: pcm_s16le.*, ${RATE} Hz, (?:2 channels|stereo)`));
    assert.equal(seconds, 9 / 8);
    assert.ok(loudness > 0.01, `loudness ${loudness}`);

    // A sound that is given, shorter than the video: the model hears it, and the file has it as it came.
    const tone = (seconds: number) =>
      Float32Array.from({ length: seconds * 22_050 }, (_, i) => 0.5 * Math.sin(i / 10));
    const audio = `data:audio/wav;base64,${
      encodeWav({ sampleRate: 22_050, channels: [tone(0.5)] }).toBase64()
    }`;
    const [followed, other] = [
      await make({ audio }),
      await make({ audio, prompt: "a blue square" }),
    ];
    assert.equal(headers.get("x-rounded-fields"), "audio=1.13s");
    const heard = await soundOf(followed, 22_050);
    assert.match(heard.said, /Audio: aac.*, 22050 Hz, mono/);
    assert.ok(Math.abs(heard.loudness - 0.5 / Math.SQRT2) < 0.02, `loudness ${heard.loudness}`);
    assert.notDeepEqual(await Deno.readFile(followed), await Deno.readFile(other));
    const [frame, unheard] = [followed, path].map((path) => firstFrame(path));
    assert.notDeepEqual(await frame, await unheard);
    const steered = await make({
      video: await dataUrl(path),
      task_type: "V2V",
      control_scale: 0.5,
    });
    assert.equal((await probeVideo(await findFfmpeg(), steered)).frames, 9);
    const refused = await fetch(`${server.url}/v1/videos`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...FIELDS, audio: `data:audio/wav;base64,${btoa("RIFF")}` }),
    });
    assert.equal(refused.status, 400);
    assert.match((await refused.json()).error.message, /Failed to process sound: Cannot read/);
  }));
