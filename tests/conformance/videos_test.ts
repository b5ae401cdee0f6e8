import assert from "node:assert/strict";
import type { ModelInfo } from "../../engine/types.ts";
import { encodeImage } from "../../media/encode.ts";
import { findFfmpeg, probeVideo, writeVideo } from "../../media/video/mod.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { isErrorBody, type TestService, testService, until } from "../fakes/service.ts";

const PATH = "/v1/videos";
const ffmpeg = await findFfmpeg();

const animator = (stepMs = 0) =>
  new FakeEngine({
    stepMs,
    info: { supportedTaskTypes: ["T2V", "T2I", "I2V", "V2V"], maxImages: 1 },
  });

const service = (engine = animator()) => testService({ engine, ffmpeg });

// deno-lint-ignore no-explicit-any -- answers are looked at as their clients see them
async function create(service: TestService, body: unknown): Promise<any> {
  const response = await service.post(PATH, body);
  const record = await response.json();
  assert.equal(response.status, 200, JSON.stringify(record));
  return record;
}

async function ended(service: TestService, id: string): Promise<Record<string, unknown>> {
  await until(async () => (await service.store.get(id))!.endedAt !== null);
  return await (await service.get(`${PATH}/${id}`)).json();
}

async function png(): Promise<Blob> {
  const data = new Uint8Array(64 * 48 * 3).fill(128);
  return new Blob([(await encodeImage({ width: 64, height: 48, data }, { format: "png" })).bytes]);
}

async function video(folder: string, frames = 6): Promise<string> {
  const path = `${folder}/source.mp4`;
  const writer = writeVideo(ffmpeg, { path, width: 32, height: 32, fps: 8, crf: 20 });
  for (let i = 0; i < frames; i++) await writer.write(new Uint8Array(32 * 32 * 3).fill(30 * i));
  await writer.finish();
  return path;
}

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
    status: rest.status,
    progress: 0,
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
  assert.match(rest.status, /^(queued|in_progress)$/);
  const done = await ended(testee, id);
  assert.equal(done["status"], "completed");
  assert.equal(done["progress"], 100);
  assert.equal(done["num_outputs"], 1);
  assert.equal(done["file_path"], `${testee.folder}/results/${id}.mp4`);
  assert.deepEqual(done["file_paths"], [done["file_path"]]);
  assert.ok((done["expires_at"] as number) > (done["completed_at"] as number));
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
});

Deno.test("POST /v1/videos takes an image as a file, as data, and nested as the generic client sends it", async () => {
  await using testee = await service();
  const data = `data:image/png;base64,${(await (await png()).bytes()).toBase64()}`;
  const form = new FormData();
  form.set("prompt", "a");
  form.set("seconds", "1");
  form.set("input_reference", await png(), "first.png");
  const uploaded = await (await testee.get(PATH, { method: "POST", body: form })).json();
  const bodies = [
    { prompt: "a", reference_url: data },
    { prompt: "a", input_reference: data },
    { prompt: "a", input_reference: { image_url: data } },
    { prompt: "a", extra_body: { reference_url: data } },
  ];
  const records = [uploaded];
  for (const body of bodies) records.push(await create(testee, body));
  for (const { id } of records) assert.equal((await ended(testee, id))["status"], "completed");
  for (const { taskType, images } of testee.engine.requests) {
    assert.equal(taskType, "I2V");
    assert.deepEqual([images![0]!.width, images![0]!.height], [64, 48]);
  }
  // 8 frames per second for a second, rounded to 4k + 1.
  assert.equal(testee.engine.requests[0]!.numFrames, 9);
});

Deno.test("POST /v1/videos takes a video, changes it by strength, and as many frames as it has", async () => {
  await using testee = await service();
  const form = new FormData();
  form.set("prompt", "a");
  form.set("strength", "0.6");
  form.set("video_reference", new Blob([await Deno.readFile(await video(testee.folder))]), "a.mp4");
  const { id } = await (await testee.get(PATH, { method: "POST", body: form })).json();
  assert.equal((await ended(testee, id))["status"], "completed");
  const [request] = testee.engine.requests;
  assert.equal(request!.taskType, "V2V");
  assert.equal(request!.strength, 0.6);
  assert.equal(request!.video!.length, request!.numFrames);
  assert.deepEqual([request!.video![0]!.width, request!.video![0]!.height], [64, 48]);
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
    [{ prompt: "a", input_reference: "/etc/passwd" }, 400, /^Failed to process image source/],
    [{ prompt: "a", reference_url: "http://localhost/x.png" }, 400, /not public$/],
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

Deno.test("POST /v1/videos names what changes nothing this time", async () => {
  await using testee = await service();
  const reference_url = `data:image/png;base64,${(await (await png()).bytes()).toBase64()}`;
  const cases: [Record<string, unknown>, string | null][] = [
    [{ strength: 0.5 }, "strength"],
    [{ strength: 0.5, reference_url }, "strength"],
    [{ enable_audio: true }, "enable_audio"],
    [{ quality: "standard", output_quality: "best" }, "quality, output_quality"],
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
  assert.match(error.message, /name its file with --frame-interpolator at the start/);
  const idle = await testee.post(PATH, {
    ...{ prompt: "a", num_inference_steps: 1, frame_interpolation_exp: 2 },
    ...{ enable_frame_interpolation: false, frame_interpolation_scale: 1 },
  });
  assert.equal(idle.headers.get("x-ignored-fields"), "frame_interpolation_exp");
});

Deno.test("POST /v1/videos asks for a task when V2V and F2V are both possible", async () => {
  const engine = new FakeEngine({ info: { supportedTaskTypes: ["T2V", "V2V", "F2V"] } });
  await using testee = await service(engine);
  const form = new FormData();
  form.set("prompt", "a");
  form.set("video_reference", new Blob([await Deno.readFile(await video(testee.folder))]), "a.mp4");
  const response = await testee.get(PATH, { method: "POST", body: form });
  assert.equal(response.status, 400);
  assert.equal(
    (await response.json()).detail,
    "Specify task_type for this request; compatible tasks: ['V2V', 'F2V'], " +
      "supported tasks: ['T2V', 'V2V', 'F2V']",
  );
});

Deno.test("GET /v1/videos pages through the records, newest first", async () => {
  await using testee = await service();
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) {
    ids.unshift((await create(testee, { prompt: `video ${i}`, num_frames: 1 })).id);
  }
  const list = async (query: string) => await (await testee.get(`${PATH}?${query}`)).json();
  const all = await list("");
  assert.deepEqual(all.data.map(({ id }: { id: string }) => id), ids);
  assert.deepEqual([all.object, all.first_id, all.last_id, all.has_more], [
    "list",
    ids[0],
    ids[4],
    false,
  ]);
  const page = await list(`limit=2&after=${ids[1]}`);
  assert.deepEqual(page.data.map(({ id }: { id: string }) => id), [ids[2], ids[3]]);
  assert.equal(page.has_more, true);
  const oldest = await list("order=asc&limit=1");
  assert.equal(oldest.data[0].id, ids[4]);
  assert.deepEqual((await list("after=unknown")).data, []);
  for (const query of ["limit=0", "limit=101", "limit=x"]) {
    const refused = await testee.get(`${PATH}?${query}`);
    assert.equal(refused.status, 422, query);
    assert.deepEqual((await refused.json()).detail[0].loc, ["query", "limit"]);
  }
});

Deno.test("POST /v1/videos/{id}/cancel ends a video that waits or runs, within a step", async () => {
  await using testee = await service(animator(20));
  const running = await create(testee, { prompt: "a", num_inference_steps: 50 });
  const waiting = await create(testee, { prompt: "b" });
  await until(() => testee.engine.requests.length === 1);
  const early = await testee.get(`${PATH}/${running.id}/content`);
  assert.equal((await early.json()).detail, "Generation is still in-progress");
  for (const { id } of [waiting, running]) {
    await (await testee.get(`${PATH}/${id}/cancel`, { method: "POST" })).body?.cancel();
    assert.equal((await ended(testee, id))["status"], "cancelled");
  }
  assert.equal(testee.engine.requests.length, 1);
  assert.equal((await testee.get(`${PATH}/${running.id}/content`)).status, 404);
});

Deno.test("DELETE /v1/videos/{id} cancels, then removes record and file", async () => {
  await using testee = await service(animator(20));
  const { id } = await create(testee, { prompt: "a", num_inference_steps: 50 });
  await until(() => testee.engine.requests.length === 1);
  const record = await (await testee.get(`${PATH}/${id}`, { method: "DELETE" })).json();
  assert.equal(record.status, "deleted");
  assert.equal(record.deleted, true);
  assert.equal((await testee.get(`${PATH}/${id}`)).status, 404);
  assert.equal((await testee.get(`${PATH}/${id}`, { method: "DELETE" })).status, 404);

  const finished = await create(testee, { prompt: "a", num_inference_steps: 1, num_frames: 1 });
  await ended(testee, finished.id);
  await (await testee.get(`${PATH}/${finished.id}`, { method: "DELETE" })).body?.cancel();
  const names = (await Array.fromAsync(Deno.readDir(`${testee.folder}/results`)))
    .map(({ name }) => name);
  assert.deepEqual(names, []);
});

Deno.test("GET /v1/videos/{id}/events tells status, progress, previews and the end", async () => {
  await using testee = await service(animator(5));
  const { id } = await create(testee, { prompt: "a", num_inference_steps: 8, num_frames: 1 });
  const text = await (await testee.get(`${PATH}/${id}/events`)).text();
  const events = text.split("\n\n").filter((block) => block.startsWith("event: ")).map((block) => {
    const [, event, data] = /^event: (.*)\ndata: (.*)$/.exec(block)!;
    return { event: event!, data: JSON.parse(data!) };
  });
  assert.equal(events[0]!.event, "status");
  assert.deepEqual([events.at(-1)!.event, events.at(-1)!.data.status], ["status", "completed"]);
  const progress = events.filter(({ event }) => event === "progress").map(({ data }) => data);
  assert.ok(progress.length > 0);
  assert.ok(progress.every(({ total_steps }) => total_steps === 8));
  const previews = events.filter(({ event }) => event === "preview");
  assert.equal(previews.length, 3);
  // Who comes after the end is told of it at once.
  const late = await (await testee.get(`${PATH}/${id}/events`)).text();
  assert.match(late, /^event: status\ndata: .*"completed"/);
});

Deno.test("HEAD /v1/videos/{id}/events answers at once and watches nothing", async () => {
  await using testee = await service(animator(20));
  const { id } = await create(testee, { prompt: "a", num_inference_steps: 50 });
  let watchers = 0;
  const { queue } = testee;
  const watch = queue.watch.bind(queue);
  queue.watch = (...args) => (watchers++, watch(...args));
  const response = await testee.get(`${PATH}/${id}/events`, { method: "HEAD" });
  assert.equal(response.status, 200);
  assert.match(response.headers.get("content-type")!, /^text\/event-stream/);
  assert.equal(watchers, 0);
});

Deno.test("GET /v1/videos/{id}/events lets go of a video whose client has gone", async () => {
  await using testee = await service(animator(20));
  const { id } = await create(testee, { prompt: "a", num_inference_steps: 50 });
  let watchers = 0;
  const { queue } = testee;
  const watch = queue.watch.bind(queue);
  queue.watch = (...args) => {
    watchers++;
    const stop = watch(...args);
    return () => (watchers--, stop());
  };
  const response = await testee.get(`${PATH}/${id}/events`);
  assert.equal(watchers, 1);
  await response.body!.cancel();
  await until(() => watchers === 0);
});

Deno.test("DELETE /v1/videos/{id} keeps the record of a file that cannot be removed", async () => {
  await using testee = await service();
  const { id } = await create(testee, { prompt: "a", num_inference_steps: 1, num_frames: 1 });
  await ended(testee, id);
  const file = `${testee.folder}/results/${id}.mp4`;
  await Deno.remove(file);
  await Deno.mkdir(`${file}/full`, { recursive: true });
  assert.equal((await testee.get(`${PATH}/${id}`, { method: "DELETE" })).status, 500);
  await Deno.remove(file, { recursive: true });
  assert.equal((await testee.get(`${PATH}/${id}`, { method: "DELETE" })).status, 200);
});

Deno.test("GET /v1/jobs shows the queue", async () => {
  await using testee = await service(animator(20));
  await create(testee, { prompt: "a", num_inference_steps: 50 });
  const { id } = await create(testee, { prompt: "b" });
  const body = await (await testee.get("/v1/jobs")).json();
  assert.deepEqual([body.object, body.running, body.waiting], ["list", 1, 1]);
  assert.equal(body.data.find((job: { id: string }) => job.id === id).place, 1);
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

Deno.test("POST /v1/videos takes size as a budget of pixels where the model says so", async () => {
  const info = { supportedTaskTypes: ["I2V"], maxImages: 1, sizeIsBudget: true } as const;
  await using testee = await service(new FakeEngine({ info }));
  const data = `data:image/png;base64,${(await (await png()).bytes()).toBase64()}`;
  const { id, size } = await create(testee, { prompt: "a", size: "100x100", reference_url: data });
  // The image is 64x48: at 100 * 100 pixels in multiples of 16 that is 112x80.
  assert.equal(size, "112x80");
  assert.equal((await ended(testee, id))["status"], "completed");
});

Deno.test("POST /v1/videos moves an image as a driving video does, as long as that is", async () => {
  const info: Partial<ModelInfo> = {
    ...{ supportedTaskTypes: ["V2V"], taskType: "V2V", maxImages: 1, sizeIsBudget: true },
    ...{ animates: true, frameMultiple: 1, optionalSettings: ["clipLen", "promptRef"] },
  };
  await using testee = await service(new FakeEngine({ info }));
  const form = (fields: Record<string, string>, image?: Blob) => {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.set(name, value);
    if (image) form.set("input_reference", image, "a.png");
    return form;
  };
  const source = new Blob([await Deno.readFile(await video(testee.folder))]);
  const body = form({
    ...{ prompt: "a", size: "100x100", seconds: "9", clip_len: "9", prompt_ref: "b", fps: "16" },
  }, await png());
  body.set("video_reference", source, "a.mp4");
  const response = await testee.get(PATH, { method: "POST", body });
  const { id, size } = await response.json();
  // The image is 64x48: at 100 * 100 pixels in multiples of 16 that is 112x80.
  assert.equal(size, "112x80");
  assert.equal(response.headers.get("x-ignored-fields"), "seconds");
  assert.equal((await ended(testee, id))["status"], "completed");
  const [request] = testee.engine.requests;
  assert.equal(request!.taskType, "V2V");
  assert.equal(request!.images!.length, 1);
  // Six frames at 8 per second are twelve at 16; bars stand beside the square video.
  assert.deepEqual([request!.numFrames, request!.video!.length], [12, 12]);
  assert.deepEqual([request!.clipLen, request!.promptRef], [9, "b"]);
  const { width, height, data } = request!.video!.at(-1)!;
  const column = (x: number) => data[(height / 2 * width + x) * 3]!;
  assert.ok(column(2) < 5 && column(width - 3) < 5 && column(width / 2) > 100);
  const alone = form({ prompt: "a" });
  alone.set("video_reference", source, "a.mp4");
  const refused = await testee.get(PATH, { method: "POST", body: alone });
  assert.equal(refused.status, 400);
  assert.match((await refused.json()).error.message, /^Cannot do V2V: it needs an input image/);
});

Deno.test("POST /v1/videos keeps a video's sound unless enable_audio is false", async () => {
  await using testee = await service();
  const path = `${testee.folder}/sound.mp4`;
  const source = ffmpeg.encode({
    inputs: [],
    arguments: ({ output }) => [
      ...["-f", "lavfi", "-i", "testsrc=s=32x32:r=8:d=1", "-f", "lavfi", "-i", "sine=d=1"],
      ...["-c:v", "libx264", "-pix_fmt", "yuv420p", "-c:a", "aac", "-f", "mp4", output],
    ],
  }, path);
  await source.finish();
  for (const [flag, codec] of [["true", "aac"], ["false", undefined]] as const) {
    const form = new FormData();
    form.set("prompt", "a");
    form.set("enable_audio", flag);
    form.set("video_reference", new Blob([await Deno.readFile(path)]), "sound.mp4");
    const { id } = await (await testee.get(PATH, { method: "POST", body: form })).json();
    assert.equal((await ended(testee, id))["status"], "completed");
    const bytes = await (await testee.get(`${PATH}/${id}/content`)).bytes();
    await Deno.writeFile(`${testee.folder}/got.mp4`, bytes);
    assert.equal((await probeVideo(ffmpeg, `${testee.folder}/got.mp4`)).audioCodec, codec, flag);
  }
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

Deno.test("POST /v1/videos refuses a video of which too much would have to be decoded", async () => {
  await using testee = await service();
  const path = `${testee.folder}/fast.mp4`;
  const writer = writeVideo(ffmpeg, { path, width: 32, height: 32, fps: 2000, crf: 20 });
  for (let i = 0; i < 4; i++) await writer.write(new Uint8Array(32 * 32 * 3));
  await writer.finish();
  const form = new FormData();
  for (const [name, value] of Object.entries({ prompt: "a", size: "64x48" })) {
    form.append(name, value);
  }
  form.append("input_reference", new Blob([await Deno.readFile(path)]), "video.mp4");
  const response = await testee.get(PATH, { method: "POST", body: form });
  const body = await response.json();
  assert.equal(response.status, 400, JSON.stringify(body));
  assert.ok(isErrorBody(body));
  assert.equal(body.error.code, "invalid_source");
  assert.equal(body.error.param, "input_reference");
  assert.match(body.error.message, /it has 2000 frames per second, and at most 1000 are allowed/);
});
