/** Videos over HTTP: what is asked for, and what comes of it. */
import assert from "node:assert/strict";
import { probeVideo } from "../../media/video/mod.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { isErrorBody, testService } from "../fakes/service.ts";
import {
  animator,
  create,
  ended,
  ffmpeg,
  PATH,
  png,
  video,
  videoService as service,
} from "./video_service.ts";

Deno.test("POST /v1/videos queues a video, whose record goes to completed and whose file plays", async () => {
  await using testee = await service();
  const record = await create(testee, {
    prompt: "a red circle moves",
    size: "64x48",
    num_frames: 9,
    fps: 12,
    seed: 5,
    x264_preset: "ultrafast",
  });
  assert.match(record.id, /^video_[0-9a-f-]{36}$/);
  const { id, created_at, ...rest } = record;
  assert.ok(Math.abs(created_at - Date.now() / 1000) < 10);
  assert.deepEqual(rest, {
    object: "video",
    model: "gradients",
    status: "queued",
    progress: 0,
    prompt: "a red circle moves",
    size: "64x48",
    seconds: "1",
    quality: "standard",
    url: null,
    remixed_from_video_id: null,
    completed_at: null,
    expires_at: null,
    error: null,
    file_path: null,
    file_paths: null,
    num_outputs: null,
    peak_memory_mb: null,
    inference_time_s: null,
    action: null,
    revised_prompt: null,
    seeds: [5],
  });
  const done = await ended(testee, id);
  assert.equal(done["status"], "completed");
  assert.equal(done["progress"], 100);
  assert.equal(done["num_outputs"], 1);
  assert.equal(done["file_path"], `${testee.folder}/results/${id}.mp4`);
  assert.deepEqual(done["file_paths"], [done["file_path"]]);
  assert.equal(done["expires_at"], null, "on a loopback address nothing is removed");
  const content = await testee.get(`${PATH}/${id}/content`);
  assert.equal(content.headers.get("content-type"), "video/mp4");
  await Deno.writeFile(`${testee.folder}/got.mp4`, await content.bytes());
  assert.deepEqual(await probeVideo(ffmpeg, `${testee.folder}/got.mp4`), {
    width: 64,
    height: 48,
    frames: 9,
    fps: 12,
  });
  const part = await testee.get(`${PATH}/${id}/content`, { headers: { range: "bytes=0-1" } });
  assert.equal(part.status, 206);
  await part.body?.cancel();
});

Deno.test("POST /v1/videos makes n videos with counting seeds", async () => {
  await using testee = await service();
  const { id } = await create(testee, { prompt: "a", n: 2, seed: 5, num_frames: 1 });
  assert.equal((await ended(testee, id))["num_outputs"], 2);
  assert.deepEqual(testee.engine.requests.map(({ seed }) => seed), [5, 6]);
  for (
    const [variant, status] of [
      ["0", 200],
      ["1", 200],
      ["2", 404],
      ["x", 404],
      ["video", 200],
      ["thumbnail", 404],
    ] as const
  ) {
    const response = await testee.get(`${PATH}/${id}/content?variant=${variant}`);
    assert.equal(response.status, status, variant);
    await response.body?.cancel();
  }
  const second = await (await testee.get(`${PATH}/${id}/content?variant=1`)).bytes();
  const removed = await testee.get(`/v1/jobs/${id}/outputs/0`, { method: "DELETE" });
  assert.equal((await removed.json()).outputs.length, 1);
  for (const query of ["", "?variant=video"]) {
    assert.deepEqual(await (await testee.get(`${PATH}/${id}/content${query}`)).bytes(), second);
  }
});

Deno.test("POST /v1/videos says what is wrong before it queues", async () => {
  await using testee = await service();
  const cases: [unknown, number, RegExp][] = [
    [{}, 400, /^prompt is required$/],
    [{ prompt: "" }, 400, /^prompt is required$/],
    [{ prompt: 5 }, 422, /valid string/],
    [{ prompt: "a", x264_preset: "warp" }, 400, /^x264_preset must be one of \['ultrafast'/],
    [{ prompt: "a", size: "64" }, 400, /^size must be formatted/],
    [{ prompt: "a", size: "60x64" }, 400, /nearest size is 64x64/],
    [{ prompt: "a", num_frames: 0 }, 400, /^num_frames must be positive$/],
    [{ prompt: "a", num_frames: 1000 }, 400, /at most 81/],
    [{ prompt: "a", fps: 0 }, 400, /^fps must be a positive int, got 0$/],
    [{ prompt: "a", output_compression: 101 }, 400, /between 0 and 100/],
    [{ prompt: "a", strength: 2 }, 400, /^strength must be/],
    [{ prompt: "a", quality: "best" }, 400, /^quality must be one of/],
    [{ prompt: "a", output_quality: "best" }, 400, /^output_quality must be one of/],
    [
      { prompt: "a", task_type: "I2V" },
      400,
      /^Cannot do I2V: it needs an input image.*send 'input_reference' or 'reference_url'$/,
    ],
    [
      { prompt: "a", task_type: "V2V" },
      400,
      /^Cannot do V2V: it needs an input video.*send 'video_reference' or 'video_url'$/,
    ],
    [{ prompt: "a", task_type: "T2I" }, 400, /^task_type T2I produces IMAGE, but this endpoint/],
    [{ prompt: "a", task_type: "F2V" }, 400, /^Unsupported task_type F2V/],
    [{ prompt: "a", video_path: "/etc/passwd" }, 400, /may not name paths/],
    [{ prompt: "a", output_path: "/tmp" }, 400, /may not name paths/],
    [
      { prompt: "a", input_reference: "/etc/passwd" },
      400,
      /^Failed to process image source: '\/etc\/passwd' is not a URL; use http, https or data$/,
    ],
    [{ prompt: "a", input_reference: { file_id: "1" } }, 422, /or a dictionary with image_url$/],
    [{ prompt: "a", seconds: 1.5 }, 422, /^Input should be a valid integer$/],
    [
      { prompt: "a", video_reference: `data:video/mp4;base64,${btoa("damaged")}` },
      400,
      /it is damaged or of no known format; send MP4/,
    ],
    [{ prompt: "a", reference_url: "http://localhost/x.png" }, 400, /not public;/],
    [{ prompt: "a", enhance_prompt: true }, 400, /requires --prompt-enhancer-config$/],
    [{ prompt: "a", seed: [1, 2] }, 400, /^Cannot use 2 seeds for 1 output/],
  ];
  for (const [body, status, message] of cases) {
    const response = await testee.post(PATH, body);
    const answer = await response.json();
    assert.equal(response.status, status, JSON.stringify([body, answer]));
    assert.ok(isErrorBody(answer));
    assert.match(
      typeof answer.detail === "string" ? answer.detail : answer.detail[0].msg,
      message,
    );
  }
  assert.deepEqual(await testee.store.list(), []);
});

Deno.test("POST /v1/videos names the length that it makes in place of another", async () => {
  await using service = await testService();
  const roundedOf = async (fields: Record<string, unknown>) =>
    (await service.post("/v1/videos", { prompt: "a", ...fields })).headers.get("x-rounded-fields");
  assert.equal(await roundedOf({ num_frames: 10 }), "num_frames=9");
  assert.equal(await roundedOf({ num_frames: 9 }), null);
  assert.equal(await roundedOf({}), null);
  assert.equal(await roundedOf({ seconds: 1, fps: 4 }), "seconds=1.25");
  assert.equal(await roundedOf({ seconds: 1, fps: 5 }), null);
  const both = await service.post("/v1/videos", { prompt: "a", num_frames: 9, seconds: 99 });
  assert.equal(both.headers.get("x-ignored-fields"), "seconds");
});

Deno.test("POST /v1/videos names what changes nothing this time", async () => {
  await using testee = await service();
  const reference_url = `data:image/png;base64,${(await (await png()).bytes()).toBase64()}`;
  const cases: [Record<string, unknown>, string | null][] = [
    [{ strength: 0.5 }, "strength"],
    [{ strength: 0.5, reference_url }, "strength"],
    [{ enable_audio: true }, "enable_audio"],
    [{ quality: "standard", output_quality: "high" }, "quality"],
    [{ output_quality: "low", output_compression: 20, x264_preset: "fast" }, null],
    [{ negative_prompt: "blur", guidance_scale: 0 }, "negative_prompt"],
    [{ negative_prompt: "blur" }, null],
  ];
  for (const [fields, ignored] of cases) {
    const body = { prompt: "a", num_frames: 1, num_inference_steps: 1, ...fields };
    const response = await testee.post(PATH, body);
    assert.equal(response.status, 200, await response.text());
    assert.equal(response.headers.get("x-ignored-fields"), ignored, JSON.stringify(fields));
  }
  const form = new FormData();
  form.set("prompt", "a");
  form.set("strength", "0.5");
  form.set("video_reference", new Blob([await Deno.readFile(await video(testee.folder))]), "a.mp4");
  const changed = await testee.get(PATH, { method: "POST", body: form });
  assert.equal(changed.headers.get("x-ignored-fields"), null);
  await changed.body?.cancel();
});

Deno.test("POST /v1/videos draws a seed for each request, and its record tells it", async () => {
  await using testee = await service();
  const fields = { prompt: "a", num_frames: 1, num_inference_steps: 1, n: 2 };
  const records = [await create(testee, fields), await create(testee, { ...fields, seed: "-1" })];
  const seeds = records.flatMap((record) => record.seeds as number[]);
  assert.equal(new Set(seeds).size, 4);
  for (const { id } of records) await ended(testee, id);
  assert.deepEqual(testee.engine.requests.map(({ seed }) => seed), seeds);
});

Deno.test("POST /v1/videos reads numbers and flags that come as text in JSON", async () => {
  await using testee = await service();
  const { id } = await create(testee, {
    prompt: "a",
    num_frames: "5",
    num_inference_steps: "2",
    seed: "7",
    guidance_scale: "2.5",
    enable_audio: "false",
    n: true,
    enhance_prompt: 0,
  });
  await ended(testee, id);
  const [request] = testee.engine.requests;
  const { numFrames, numInferenceSteps, seed, guidanceScale } = request!;
  assert.deepEqual([numFrames, numInferenceSteps, seed, guidanceScale], [5, 2, 7, 2.5]);
});

Deno.test("POST /v1/videos interpolates and upscales where the server has the networks", async () => {
  const engine = new FakeEngine({ info: { optionalParts: ["upscaler", "frameInterpolator"] } });
  await using testee = await service(engine);
  const body = { prompt: "a", size: "32x48", num_frames: 5, fps: 8, num_inference_steps: 1 };
  const interpolated = { enable_frame_interpolation: true, frame_interpolation_exp: 2 };
  const { id } = await create(testee, {
    ...{ ...body, ...interpolated, frame_interpolation_scale: 0.5 },
    ...{ enable_upscaling: true, upscaling_scale: 2 },
  });
  assert.equal((await ended(testee, id))["status"], "completed");
  const bytes = await (await testee.get(`${PATH}/${id}/content`)).bytes();
  await Deno.writeFile(`${testee.folder}/got.mp4`, bytes);
  const { width, height, frames, fps } = await probeVideo(ffmpeg, `${testee.folder}/got.mp4`);
  assert.deepEqual([width, height, frames, fps], [64, 96, 17, 32]);
});

Deno.test("POST /v1/videos refuses interpolation without a network, and names what it changes nothing", async () => {
  await using testee = await service();
  const refused = await testee.post(PATH, { prompt: "a", enable_frame_interpolation: true });
  assert.equal(refused.status, 400);
  const { error } = await refused.json();
  assert.equal(error.param, "enable_frame_interpolation");
  assert.match(
    error.message,
    /fetch one with denoise pull rife_v4.26, name a file with --frame-interpolator at the start/,
  );
  const idle = await testee.post(PATH, {
    ...{ prompt: "a", num_inference_steps: 1, frame_interpolation_exp: 2 },
    ...{ enable_frame_interpolation: false, frame_interpolation_scale: 1 },
  });
  assert.equal(idle.headers.get("x-ignored-fields"), "frame_interpolation_exp");
});

Deno.test("POST /v1/videos tells why a video failed, and goes on with the next", async () => {
  await using testee = await service(new FakeEngine({ failure: new Error("secret") }));
  const { id } = await create(testee, { prompt: "a" });
  const record = await ended(testee, id);
  assert.equal(record["status"], "failed");
  assert.deepEqual(record["error"], {
    code: "internal_error",
    message: "Cannot finish the job: an internal error occurred",
  });
  assert.equal((await testee.get(`${PATH}/${id}/content`)).status, 404);
  assert.match(testee.lines.join("\n"), new RegExp(`${id} failed: Error: secret`));
});

Deno.test("POST /v1/videos rewrites the prompt before it queues, and says so in the record", async () => {
  const tasks: string[] = [];
  const enhancer = {
    enhance: (prompt: string, task: string) => {
      tasks.push(task);
      return Promise.resolve(`${prompt}, in detail`);
    },
  };
  await using testee = await testService({ engine: animator(), ffmpeg, enhancer });
  const plain = await create(testee, { prompt: "a", num_frames: 1 });
  const record = await create(testee, { prompt: "a", num_frames: 1, n: 2, enhance_prompt: true });
  assert.equal(plain.revised_prompt, null);
  assert.equal(record.revised_prompt, "a, in detail");
  assert.equal((await ended(testee, record.id))["revised_prompt"], "a, in detail");
  assert.deepEqual(tasks, ["video"]);
  const prompts = testee.engine.requests.map(({ prompt }) => prompt);
  assert.deepEqual(prompts, ["a", "a, in detail", "a, in detail"]);
});
