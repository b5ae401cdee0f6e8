import { strict as assert } from "node:assert";
import type { Ffmpeg } from "../../media/video/mod.ts";
import { FAKE_INFO, FakeEngine } from "../../tests/fakes/engine.ts";
import type { JobContext } from "../jobs/job.ts";
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
  keepsAudio: true,
  crf: 20,
  preset: "fast",
  ignored: [],
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
  const context: JobContext = {
    id: "video_1",
    signal: new AbortController().signal,
    progress: () => {},
    preview: () => {},
  };
  const job = { engine: new FakeEngine(), request: REQUEST, ffmpeg, previews: 0 };
  try {
    const storage = new LocalStorage(folder);
    await assert.rejects(runVideoJob({ ...job, storage }, context), /broken/);
    assert.equal(stopped, 1);
    assert.deepEqual([...Deno.readDirSync(folder)], []);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
