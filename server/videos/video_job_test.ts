import { strict as assert } from "node:assert";
import { type Ffmpeg, FfmpegError } from "../../media/video/mod.ts";
import { FakeEngine } from "../../tests/fakes/engine.ts";
import { FAKE_INFO } from "../../tests/fakes/model_info.ts";
import { ApiError } from "../contract/errors.ts";
import type { JobContext } from "../jobs/job.ts";
import { isLeftOver } from "../jobs/retention.ts";
import { SqliteJobStore } from "../jobs/sqlite_store.ts";
import { LocalStorage } from "../storage/local.ts";
import { runVideoJob } from "./video_job.ts";
import type { VideoRequest } from "./video_request.ts";

const REQUEST: VideoRequest = {
  prompt: "a",
  negativePrompt: "",
  seeds: [1],
  numInferenceSteps: 1,
  guidanceScale: 1,
  taskType: "T2V",
  quality: "lossless",
  enhancePrompt: false,
  loras: [],
  model: "fake",
  width: FAKE_INFO.defaults.width,
  height: FAKE_INFO.defaults.height,
  numFrames: 5,
  fps: 8,
  images: [],
  enableAudio: true,
  crf: 20,
  preset: "fast",
  ignored: [],
};

const CONTEXT: JobContext = {
  id: "video_1",
  signal: new AbortController().signal,
  progress: () => {},
  preview: () => {},
  output: () => {},
};

Deno.test("runVideoJob() stops the encoder when a frame cannot be written", async () => {
  const folder = await Deno.makeTempDir();
  let stopped = 0;
  const ffmpeg: Ffmpeg = {
    description: "an encoder that takes no frame and waits for more",
    encode: ({ signal }) => {
      signal!.addEventListener("abort", () => stopped++);
      return {
        write: () => Promise.reject(new Error("broken")),
        finish: () => signal!.aborted ? Promise.reject(signal!.reason) : Promise.resolve(),
      };
    },
    decode: () => new ReadableStream(),
  };
  const job = { engine: new FakeEngine(), request: REQUEST, ffmpeg, previews: 0 };
  try {
    const storage = new LocalStorage(folder);
    await assert.rejects(runVideoJob({ ...job, storage }, CONTEXT), /broken/);
    assert.equal(stopped, 1);
    assert.deepEqual([...Deno.readDirSync(folder)], []);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("runVideoJob() keeps sound beside the file that it is for, where a later server finds it", async () => {
  const folder = await Deno.makeTempDir();
  const id = `video_${crypto.randomUUID()}`;
  const store = SqliteJobStore.inMemory();
  const sounds: string[] = [];
  const ffmpeg: Ffmpeg = {
    description: "an encoder that looks at its sound",
    encode: ({ inputs }, output) => {
      sounds.push(...Deno.readDirSync(folder).map(({ name }) => name));
      assert.deepEqual(inputs.map((path) => path.startsWith(folder)), [true]);
      const write = () => Deno.writeFile(output, new Uint8Array(9));
      return { write, finish: () => Promise.resolve() };
    },
    decode: () => new ReadableStream(),
  };
  const engine = new FakeEngine({ info: { givesAudio: true } });
  const storage = new LocalStorage(folder);
  try {
    await runVideoJob({ engine, request: REQUEST, ffmpeg, previews: 0, storage }, {
      ...CONTEXT,
      id,
    });
    assert.equal(sounds.length, 1);
    assert.ok(await isLeftOver(sounds[0]!, store), sounds[0]);
    assert.deepEqual([...Deno.readDirSync(folder)].map(({ name }) => name), [`${id}.mp4`]);
  } finally {
    await store.close();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("runVideoJob() blames the video for damage that only decoding finds", async () => {
  const folder = await Deno.makeTempDir();
  const ffmpeg: Ffmpeg = {
    description: "a decoder that finds damage",
    encode: () => ({ write: () => Promise.resolve(), finish: () => Promise.resolve() }),
    decode: () =>
      new ReadableStream({ pull: () => Promise.reject(new FfmpegError("FFmpeg failed: no")) }),
  };
  const info = { width: 64, height: 64, frames: 5, fps: 8 };
  const request = { ...REQUEST, video: { path: "/video.mp4", info } };
  const storage = new LocalStorage(folder);
  const job = { engine: new FakeEngine(), request, ffmpeg, previews: 0, storage };
  try {
    await assert.rejects(runVideoJob(job, CONTEXT), (error) => {
      assert.ok(error instanceof ApiError);
      assert.equal(error.status, 400);
      assert.equal(error.body.error.code, "invalid_source");
      assert.match(
        error.message,
        /^Cannot read video: it is damaged or of no known format; send MP4/,
      );
      return true;
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
