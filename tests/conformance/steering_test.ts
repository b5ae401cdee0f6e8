/** What steers a video: masks, reference images, last frames, the end of a clip; and how images meet its size. */
import assert from "node:assert/strict";
import { encodeImage } from "../../media/encode.ts";
import { findFfmpeg, writeVideo } from "../../media/video/mod.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { type TestService, testService, until } from "../fakes/service.ts";

const PATH = "/v1/videos";
const ffmpeg = await findFfmpeg();

const steered = () =>
  testService({
    ffmpeg,
    engine: new FakeEngine({
      info: {
        supportedTasks: ["T2V", "I2V", "V2V", "F2V"],
        ...{ maxImages: 2, maxReferences: 2, takesMasks: true, visionSide: 14, continuedFrames: 3 },
        optionalSettings: ["guidanceScale2", "controlScale"],
      },
    }),
  });

/** A picture whose left half is black and whose right half is white. */
async function png(width = 64, height = 48): Promise<Uint8Array<ArrayBuffer>> {
  const data = Uint8Array.from(
    { length: width * height * 3 },
    (_, i) => (Math.floor(i / 3) % width < width / 2 ? 0 : 255),
  );
  return (await encodeImage({ width, height, data }, { format: "png" })).bytes;
}

/** A clip that gets brighter: frame k has 30 · k. */
async function clip(folder: string, frames = 6): Promise<Uint8Array<ArrayBuffer>> {
  const path = `${folder}/source.mp4`;
  const writer = writeVideo(ffmpeg, { path, width: 64, height: 48, fps: 8, crf: 1 });
  for (let i = 0; i < frames; i++) await writer.write(new Uint8Array(64 * 48 * 3).fill(30 * i));
  await writer.finish();
  return await Deno.readFile(path);
}

async function made(
  service: TestService,
  fields: Record<string, string | Uint8Array<ArrayBuffer>[]>,
) {
  const form = new FormData();
  const all: typeof fields = { prompt: "a", num_frames: "5", ...fields };
  for (const [name, value] of Object.entries(all)) {
    if (typeof value === "string") form.append(name, value);
    else value.forEach((bytes) => form.append(name, new Blob([bytes]), `${name}.bin`));
  }
  const response = await service.get(PATH, { method: "POST", body: form });
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify(answer));
  await until(async () => (await service.store.get(answer.id))!.endedAt !== null);
  const record = await (await service.get(`${PATH}/${answer.id}`)).json();
  assert.equal(record.status, "completed", JSON.stringify(record));
  const ignored = response.headers.get("x-ignored-fields");
  return { request: service.engine.requests.at(-1)!, ignored };
}

Deno.test("POST /v1/videos takes a clip with an image as its mask, and weights of the control", async () => {
  await using service = await steered();
  const { request, ignored } = await made(service, {
    task_type: "V2V",
    video: [await clip(service.folder)],
    mask: [await png(32, 24)],
    control_scale: "0.5",
    guidance_scale_2: "2",
  });
  assert.equal(ignored, null);
  assert.deepEqual([request.video!.length, request.mask!.length], [5, 1]);
  const { width, height, data } = request.mask![0]!;
  assert.deepEqual([width, height, data[0], data.at(-1)], [64, 48, 0, 255]);
  assert.deepEqual([request.controlScale, request.guidanceScale2], [[0.5], 2]);
  assert.equal(request.strength, undefined);
});

Deno.test("POST /v1/videos takes a clip as a mask, frame by frame", async () => {
  await using service = await steered();
  const bytes = await clip(service.folder);
  const { request } = await made(service, { task_type: "v2v", video: [bytes], mask: [bytes] });
  const shades = request.mask!.map(({ data }) => data[0]!);
  assert.equal(shades.length, 5);
  shades.forEach((shade, i) => assert.ok(Math.abs(shade - 30 * i) < 8, `${shades}`));
});

Deno.test("POST /v1/videos takes reference images in sizes of their own, of four megapixels at most", async () => {
  await using service = await steered();
  const { request } = await made(service, { reference: [await png(100, 50), await png(30, 90)] });
  assert.equal(request.taskType, "T2V");
  const sizes = request.references!.map(({ width, height }) => [width, height]);
  assert.deepEqual(sizes, [[100, 50], [30, 90]]);
  const form = new FormData();
  form.set("prompt", "a");
  for (let i = 0; i < 3; i++) form.append("reference", new Blob([await png()]), "a.png");
  const refused = await service.get(PATH, { method: "POST", body: form });
  assert.equal(refused.status, 400);
  assert.match(
    (await refused.json()).detail,
    /^Cannot use 3 reference images: this model takes 2$/,
  );
});

Deno.test("POST /v1/videos takes a first and a last frame, and shows both to the image encoder", async () => {
  await using service = await steered();
  const { request } = await made(service, {
    input_reference: [await png()],
    last_image: [await png(100, 100)],
  });
  assert.equal(request.taskType, "I2V");
  const sizes = request.images!.map(({ width, height, vision }) => [width, height, vision?.length]);
  assert.deepEqual(sizes, [[64, 48, 14 * 14 * 3], [64, 48, 14 * 14 * 3]]);
});

Deno.test("POST /v1/videos takes images for frames in the middle, as files and as addresses", async () => {
  await using service = await testService({
    ffmpeg,
    engine: new FakeEngine({
      info: {
        ...{ supportedTasks: ["T2V", "I2V"], maxImages: 3 },
        optionalSettings: ["imageFrames", "imageStrengths"],
      },
    }),
  });
  const { request } = await made(service, {
    input_reference: [await png(), await png(100, 100)],
    last_image: [await png()],
    image_frames: "[0, 2, 4]",
    image_strengths: "0.5",
  });
  const { images, imageFrames, imageStrengths } = request;
  assert.deepEqual([images!.length, imageFrames, imageStrengths], [3, [0, 2, 4], [0.5]]);
  const url = `data:image/png;base64,${(await png()).toBase64()}`;
  const send = (body: object) =>
    service.get(PATH, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ prompt: "a", num_frames: 5, ...body }),
    });
  const answer = await (await send({ input_reference: [url, { image_url: url }] })).json();
  await until(async () => (await service.store.get(answer.id))!.endedAt !== null);
  assert.equal(service.engine.requests.at(-1)!.images!.length, 2);
  const refused = await send({ input_reference: url, image_frames: [-1] });
  assert.equal(refused.status, 400);
  const { error } = await refused.json();
  assert.match(error.message, /image_frames must be frames of the video, from 0, got -1/);
});

Deno.test("POST /v1/videos takes no last frame without a first one", async () => {
  await using service = await steered();
  const form = new FormData();
  form.set("prompt", "a");
  form.set("last_image", new Blob([await png()]), "a.png");
  const response = await service.get(PATH, { method: "POST", body: form });
  assert.equal(response.status, 400);
  const { error } = await response.json();
  assert.match(error.message, /^Cannot end with 'last_image': there is no first frame; /);
  assert.equal(error.param, "last_image");
});

Deno.test("POST /v1/videos goes on from the frames that a clip ends with", async () => {
  await using service = await steered();
  const { request } = await made(service, {
    task_type: "F2V",
    video: [await clip(service.folder)],
    num_frames: "9",
    fps: "8",
  });
  const shades = request.video!.map(({ data }) => data[0]!);
  assert.deepEqual([shades.length, request.numFrames], [3, 9]);
  shades.forEach((shade, i) => assert.ok(Math.abs(shade - 30 * (3 + i)) < 8, `${shades}`));
});

Deno.test("POST /v1/videos fits an image as it is told", async () => {
  await using service = await steered();
  const corners = async (fit: string) => {
    const { request } = await made(service, { input_reference: [await png(64, 16)], fit });
    const { data } = request.images![0]!;
    const row = (y: number) => [data[y * 64 * 3], data[(y * 64 + 63) * 3]];
    return [row(0), row(24)];
  };
  assert.deepEqual(await corners("stretch"), [[0, 255], [0, 255]]);
  assert.deepEqual(await corners("contain"), [[0, 0], [0, 255]]);
  assert.deepEqual(await corners("cover"), [[0, 255], [0, 255]]);
  const answer = await service.post(PATH, { prompt: "a", fit: "squeeze" });
  assert.equal(answer.status, 400);
  assert.match(
    (await answer.json()).detail,
    /^fit must be one of \['cover', 'contain', 'stretch'\]/,
  );
});

Deno.test("POST /v1/videos names what a model has no use for", async () => {
  const engine = new FakeEngine({ info: { supportedTasks: ["T2V"], maxImages: 0 } });
  await using service = await testService({ engine, ffmpeg });
  const { request, ignored } = await made(service, {
    mask: [await png()],
    reference: [await png()],
    fit: "contain",
    guidance_scale_2: "3",
    control_scale: "1",
  });
  const names = ignored!.split(", ").sort();
  assert.deepEqual(names, ["control_scale", "fit", "guidance_scale_2", "mask", "reference"]);
  assert.deepEqual([request.mask, request.references, request.controlScale], [
    undefined,
    undefined,
    undefined,
  ]);
});
