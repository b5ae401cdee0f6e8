/** Videos over HTTP that are made from images and videos. */
import assert from "node:assert/strict";
import type { ModelInfo } from "../../engine/types.ts";
import { probeVideo, writeVideo } from "../../media/video/mod.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { isErrorBody, type TestService } from "../fakes/service.ts";
import {
  create,
  ended,
  ffmpeg,
  PATH,
  png,
  video,
  videoService as service,
} from "./video_service.ts";

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
  const { inputs: [kept] } = await (await testee.get(`/v1/jobs/${id}`)).json();
  assert.deepEqual([kept.field, kept.content_type], ["video_reference", "video/mp4"]);
  assert.equal((await (await testee.get(kept.url)).bytes()).length, kept.bytes);
});

Deno.test("POST /v1/videos asks for a task when V2V and F2V are both possible", async () => {
  const engine = new FakeEngine({ info: { supportedTasks: ["T2V", "V2V", "F2V"] } });
  await using testee = await service(engine);
  const form = new FormData();
  form.set("prompt", "a");
  form.set("video_reference", new Blob([await Deno.readFile(await video(testee.folder))]), "a.mp4");
  const response = await testee.get(PATH, { method: "POST", body: form });
  assert.equal(response.status, 400);
  assert.equal(
    (await response.json()).detail,
    "Specify task_type for this request; compatible tasks: V2V, F2V, " +
      "supported tasks: T2V, V2V, F2V",
  );
});

Deno.test("POST /v1/videos takes size as a budget of pixels where the model says so", async () => {
  const info = { supportedTasks: ["I2V"], maxImages: 1, animates: true } as const;
  await using testee = await service(new FakeEngine({ info }));
  const data = `data:image/png;base64,${(await (await png()).bytes()).toBase64()}`;
  const { id, size } = await create(testee, { prompt: "a", size: "100x100", reference_url: data });
  // The image is 64x48: at 100 * 100 pixels in multiples of 16 that is 112x80.
  assert.equal(size, "112x80");
  assert.equal((await ended(testee, id))["status"], "completed");
});

Deno.test("POST /v1/videos moves an image as a driving video does, as long as that is", async () => {
  const info: Partial<ModelInfo> = {
    ...{ supportedTasks: ["V2V"], defaultTask: "V2V", maxImages: 1 },
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

Deno.test("POST /v1/videos keeps a video's sound unless enable_audio is false, or what comes goes on after it", async () => {
  const info = { supportedTasks: ["V2V", "F2V"], continuedFrames: 5 } as const;
  await using testee = await service(new FakeEngine({ info }));
  const path = `${testee.folder}/sound.mp4`;
  const source = ffmpeg.encode({
    inputs: [],
    arguments: ({ output }) => [
      ...["-f", "lavfi", "-i", "testsrc=s=32x32:r=8:d=1", "-f", "lavfi", "-i", "sine=d=1"],
      ...["-c:v", "libx264", "-pix_fmt", "yuv420p", "-c:a", "aac", "-f", "mp4", output],
    ],
  }, path);
  await source.finish();
  const cases = [["V2V", "true", "aac"], ["V2V", "false", undefined], ["F2V", "true", undefined]];
  for (const [task, flag, codec] of cases as [string, string, string | undefined][]) {
    const form = new FormData();
    form.set("prompt", "a");
    form.set("task_type", task);
    form.set("enable_audio", flag);
    form.set("video_reference", new Blob([await Deno.readFile(path)]), "sound.mp4");
    const response = await testee.get(PATH, { method: "POST", body: form });
    assert.equal(response.headers.get("x-ignored-fields"), task === "F2V" ? "enable_audio" : null);
    const { id } = await response.json();
    assert.equal((await ended(testee, id))["status"], "completed");
    const bytes = await (await testee.get(`${PATH}/${id}/content`)).bytes();
    await Deno.writeFile(`${testee.folder}/got.mp4`, bytes);
    assert.equal(
      (await probeVideo(ffmpeg, `${testee.folder}/got.mp4`)).audioCodec,
      codec,
      `${task} ${flag}`,
    );
  }
});

Deno.test("POST /v1/videos gives the sound that a model makes, as long as the frames, unless enable_audio is false", async () => {
  await using testee = await service(new FakeEngine({ info: { givesAudio: true } }));
  for (const enable_audio of [true, false]) {
    const fields = { prompt: "a", size: "32x32", num_frames: 17, fps: 8, enable_audio };
    const response = await testee.post(PATH, fields);
    assert.equal(response.headers.get("x-ignored-fields"), null);
    const { id } = await response.json();
    assert.equal((await ended(testee, id))["status"], "completed");
    const path = `${testee.folder}/got.mp4`;
    await Deno.writeFile(path, await (await testee.get(`${PATH}/${id}/content`)).bytes());
    const { frames, audioCodec } = await probeVideo(ffmpeg, path);
    assert.deepEqual([frames, audioCodec], [17, enable_audio ? "aac" : undefined]);
  }
  const [first, second] = testee.engine.requests;
  assert.deepEqual([first!.fps, first!.enableAudio, second!.enableAudio], [8, undefined, false]);
});

Deno.test("POST /v1/videos gives the model's sound alone as WAV, and refuses that where there is none", async () => {
  await using testee = await service(new FakeEngine({ info: { givesAudio: true } }));
  const wav = { prompt: "a", size: "32x32", num_frames: 17, fps: 8, output_format: "wav" };
  const response = await testee.post(PATH, { ...wav, x264_preset: "slow", fragmented: true });
  assert.equal(response.headers.get("x-ignored-fields"), "x264_preset, fragmented");
  const { id } = await response.json();
  assert.equal((await ended(testee, id))["status"], "completed");
  const [request] = testee.engine.requests;
  assert.equal(request!.audioAlone, true);
  const file = await testee.get(`${PATH}/${id}/content`);
  assert.equal(file.headers.get("content-type"), "audio/wav");
  const bytes = await file.bytes();
  const view = new DataView(bytes.buffer);
  assert.deepEqual([view.getUint16(22, true), view.getUint32(24, true)], [2, 24_000]);
  assert.equal(bytes.length, 44 + 17 / 8 * 24_000 * 4);
  const { request: recorded, outputs } = await (await testee.get(`/v1/jobs/${id}`)).json();
  assert.deepEqual([recorded.output_format, outputs[0].content_type], ["wav", "audio/wav"]);
  await using silent = await service();
  const cases: [TestService, object, RegExp][] = [
    [
      testee,
      { ...wav, enable_audio: false },
      /^Cannot write WAV without sound: switch the sound on/,
    ],
    [silent, wav, /^Cannot write WAV: this model makes no sound; ask for a video in MP4$/],
    [silent, { ...wav, output_format: "gif" }, /output_format/],
  ];
  for (const [server, fields, message] of cases) {
    const refused = await server.post(PATH, fields);
    const { error } = await refused.json();
    assert.deepEqual([refused.status, error.param], [400, "output_format"]);
    assert.match(error.message, message);
  }
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

Deno.test("POST /v1/videos says in the reference's words that a T2V model takes no image", async () => {
  const engine = new FakeEngine({ info: { defaultTask: "T2V", supportedTasks: ["T2V", "T2I"] } });
  await using testee = await service(engine);
  for (
    const input_reference of [
      "dummy",
      `data:image/png;base64,${(await (await png()).bytes()).toBase64()}`,
    ]
  ) {
    const response = await testee.post("/v1/videos", { prompt: "a", input_reference });
    assert.equal(response.status, 400);
    const { detail } = await response.json();
    assert.equal(
      detail,
      "input_reference is not supported for T2V models; this model does T2V, T2I",
    );
  }
});
