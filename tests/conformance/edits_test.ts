import assert from "node:assert/strict";
import type { Image, ModelInfo } from "../../engine/types.ts";
import { encodeImage } from "../../media/encode.ts";
import { decodeImage } from "../../media/decode.ts";
import { encodeJpeg } from "../../media/jpeg.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { isErrorBody, keptInputs, type TestService, testService, until } from "../fakes/service.ts";

const PATH = "/v1/images/edits";

const editor = (stepMs = 0) =>
  new FakeEngine({
    stepMs,
    info: { defaultTask: "T2I", supportedTasks: ["T2I", "TI2I"], maxImages: 2 },
  });

/** A PNG whose left half is red and whose right half is blue. */
async function makePng(width = 80, height = 60): Promise<Uint8Array<ArrayBuffer>> {
  const data = new Uint8Array(width * height * 3);
  for (let i = 0; i < width * height; i++) data[3 * i + (i % width < width / 2 ? 0 : 2)] = 255;
  return (await encodeImage({ width, height, data }, { format: "png" })).bytes;
}

async function post(
  service: TestService,
  fields: Record<string, string | Blob | (string | Blob)[]>,
): Promise<Response> {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    for (const one of [value].flat()) form.append(name, one);
  }
  return await service.get(PATH, { method: "POST", body: form });
}

Deno.test("POST /v1/images/edits gives the model the image in the size of the result", async () => {
  await using service = await testService({ engine: editor() });
  const response = await post(service, {
    image: new Blob([await makePng()], { type: "image/png" }),
    prompt: "make it green",
    size: "64x64",
    n: "2",
    seed: "7",
    guidance_scale: "1.5",
  });
  const body = await response.json();
  assert.equal(response.status, 200, JSON.stringify(body));
  assert.equal(body.data.length, 2);
  const { width, height } = await decodeImage(Uint8Array.fromBase64(body.data[0].b64_json));
  assert.deepEqual([width, height], [64, 64]);
  const [first, second] = service.engine.requests;
  assert.deepEqual([first!.seed, second!.seed], [7, 8]);
  assert.equal(first!.taskType, "TI2I");
  assert.equal(first!.guidanceScale, 1.5);
  const [image] = first!.images!;
  assert.deepEqual([image!.width, image!.height], [64, 64]);
  const pixel = (x: number) => [...image!.data.subarray(3 * x, 3 * x + 3)];
  assert.deepEqual([pixel(8), pixel(56)], [[255, 0, 0], [0, 0, 255]]);
});

Deno.test("POST /v1/images/edits gives the layers of an image with alpha, and keeps that of the image", async () => {
  const info = { defaultTask: "TI2I", supportedTasks: ["TI2I"] } as const;
  const layers = { initial: 4, most: 16 };
  await using service = await testService({
    engine: new FakeEngine({ info: { ...info, layers, optionalSettings: ["layers"] } }),
  });
  const [width, height] = [32, 32];
  const data = new Uint8Array(width * height * 4).fill(200);
  data[3] = 0;
  const given = await encodeImage({ width, height, channels: 4, data }, { format: "png" });
  const split = (fields: Record<string, string>) =>
    post(service, { image: new Blob([given.bytes]), prompt: "a", size: "32x32", ...fields });
  const response = await split({ layers: "2", n: "2", seed: "7" });
  const body = await response.json();
  assert.equal(response.status, 200, JSON.stringify(body));
  assert.deepEqual(body.data.map(({ seed }: { seed: number }) => seed), [7, 7, 8, 8]);
  const made = await decodeImage(Uint8Array.fromBase64(body.data[3].b64_json));
  assert.equal(made.channels, 4);
  const [image] = service.engine.requests[0]!.images!;
  assert.deepEqual([...image!.alpha!.subarray(0, 2)], [0, 200]);
  const job = await (await service.get(`/v1/jobs/${body.id}`)).json();
  assert.equal(job.outputs.length, 4);
  assert.equal(job.outputs[1].seed, 7);
  const usual = await split({ output_format: "webp" });
  assert.equal((await usual.json()).data.length, 4);
  const refused = await split({ output_format: "jpeg" });
  assert.equal(refused.status, 400);
  assert.match(await refused.text(), /Cannot write layers as JPEG/);
  assert.equal((await split({ layers: "17" })).status, 400);
});

Deno.test("POST /v1/images/edits takes a strength, and refuses one out of range", async () => {
  const info = { defaultTask: "T2I", supportedTasks: ["T2I", "TI2I"], maxImages: 2 } as const;
  const taskDefaults = { TI2I: { strength: 0.6 } };
  await using service = await testService({
    engine: new FakeEngine({ info: { ...info, taskDefaults } }),
  });
  const edit = async (strength: string) =>
    await post(service, { image: new Blob([await makePng()]), prompt: "a", strength });
  const response = await edit("0.4");
  assert.equal(response.status, 200, await response.clone().text());
  assert.equal(service.engine.requests[0]!.strength, 0.4);
  assert.equal(response.headers.get("x-ignored-fields"), null);
  const refused = await edit("1.5");
  const body = await refused.json();
  assert.equal(refused.status, 400);
  assert.ok(isErrorBody(body));
  assert.match(body.error.message, /strength must be above 0 and at most 1, got 1.5/);
});

Deno.test("POST /v1/images/edits takes width and height, which win over size", async () => {
  await using service = await testService({ engine: editor() });
  const image = new Blob([await makePng()]);
  const sizes: [Record<string, string>, number, number][] = [
    [{ width: "96", height: "32" }, 96, 32],
    [{ size: "64x64", height: "32" }, 64, 32],
    [{ width: "", height: "" }, 64, 48],
  ];
  for (const [fields, width, height] of sizes) {
    const response = await post(service, { image, prompt: "a", output_format: "png", ...fields });
    const body = await response.json();
    assert.equal(response.status, 200, JSON.stringify(body));
    assert.equal(response.headers.get("x-ignored-fields"), null);
    const made = await decodeImage(Uint8Array.fromBase64(body.data[0].b64_json));
    assert.deepEqual([made.width, made.height], [width, height]);
  }
});

Deno.test("POST /v1/images/edits names what changes nothing this time", async () => {
  await using service = await testService({ engine: editor() });
  const cases: [Record<string, string>, string | null][] = [
    [{ strength: "0.5" }, "strength"],
    [{ partial_images: "2" }, "partial_images"],
    [{ quality: "medium", output_quality: "low" }, "quality"],
    [{ output_format: "png", output_compression: "100" }, "output_compression"],
    [{ partial_images: "0", output_format: "jpeg", output_compression: "100" }, null],
  ];
  for (const [fields, ignored] of cases) {
    const image = new Blob([await makePng()]);
    const response = await post(service, { image, prompt: "a", ...fields });
    assert.equal(response.status, 200, await response.text());
    assert.equal(response.headers.get("x-ignored-fields"), ignored);
  }
  assert.ok(service.engine.requests.every(({ strength }) => strength === undefined));
});

Deno.test("POST /v1/images/edits leaves each image its own size where the model takes that", async () => {
  const imageLimits = { multiple: 16, maxPixels: 96 * 96, minSide: 32, maxAspect: 4 };
  const info = { defaultTask: "T2I", supportedTasks: ["T2I", "TI2I"], maxImages: 2 } as const;
  const engine = new FakeEngine({ info: { ...info, imageLimits } });
  await using service = await testService({ engine });
  const files = async (...sizes: [number, number][]) =>
    await Promise.all(sizes.map(async (size) => new Blob([await makePng(...size)])));
  const response = await post(service, {
    "image[]": await files([80, 70], [200, 100]),
    prompt: "put the second beside the first",
  });
  assert.equal(response.status, 200, await response.clone().text());
  const [request] = service.engine.requests;
  assert.deepEqual([request!.width, request!.height], [80, 64]);
  const sizes = request!.images!.map(({ width, height, data }) => [width, height, data.length]);
  // 200x100 has too many pixels: 135x67 has not.
  assert.deepEqual(sizes, [[80, 64, 80 * 64 * 3], [128, 64, 128 * 64 * 3]]);
  for (
    const [images, message] of [
      [[[80, 64], [31, 64]], /31x64: this model takes sides of at least 32 pixels/],
      [[[32, 200]], /32x200: for this model one side may be at most 4 times the other/],
      [[[64, 64], [64, 64], [64, 64]], /Cannot use 3 images: this model takes 2/],
    ] as [[number, number][], RegExp][]
  ) {
    const refused = await post(service, { "image[]": await files(...images), prompt: "a" });
    assert.equal(refused.status, 400);
    assert.match(JSON.stringify(await refused.json()), message);
  }
});

Deno.test("POST /v1/images/edits takes its size from the image when none is named", async () => {
  await using service = await testService({ engine: editor() });
  const response = await post(service, { image: new Blob([await makePng(300, 100)]), prompt: "a" });
  assert.equal(response.status, 200);
  // 64x48 pixels in the shape 3:1, in multiples of 16.
  const [request] = service.engine.requests;
  assert.deepEqual([request!.width, request!.height], [96, 32]);
});

Deno.test("POST /v1/images/edits takes image[], url as data, and names an unused mask", async () => {
  await using service = await testService({ engine: editor() });
  const png = await makePng();
  const response = await post(service, {
    "image[]": [new Blob([png]), new Blob([png])],
    mask: new Blob([png]),
    prompt: "a",
    user: "me",
  });
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("x-ignored-fields"), "user, mask");
  assert.equal(service.engine.requests[0]!.images!.length, 2);
  const linked = await post(service, {
    url: `data:image/png;base64,${png.toBase64()}`,
    prompt: "a",
    response_format: "url",
  });
  const { data } = await linked.json();
  const content = await service.get(data[0].url);
  assert.equal(content.headers.get("content-type"), "image/jpeg");
  await content.body?.cancel();
});

Deno.test("POST /v1/images/edits takes all spellings of its inputs as one list, and names files that nobody reads", async () => {
  await using service = await testService({ engine: editor() });
  await using strict = await testService({ engine: editor(), settings: { strictFields: true } });
  const png = await makePng();
  const file = new Blob([png]);
  for (
    const [first, second] of [["image", "image[]"], ["image[0]", "image[1]"], [
      "images",
      "images[]",
    ]]
  ) {
    const response = await post(strict, { [first!]: file, [second!]: file, prompt: "a" });
    assert.equal(response.status, 200, await response.text());
    assert.equal(strict.engine.requests.pop()!.images!.length, 2, first);
  }
  const asked = { image: file, prompt: "a", foo: file, style_image: "x", prompt_image: file };
  const named = await post(service, asked);
  assert.equal(named.status, 200, await named.text());
  assert.equal(named.headers.get("x-ignored-fields"), "style_image, foo, prompt_image");
  const refused = await post(strict, { image: file, prompt: "a", another_image: file });
  assert.equal((await refused.json()).error.code, "unknown_field");
  const opaque = { image: file, prompt: "a", background: "Transparent", output_format: "PNG" };
  assert.equal((await post(service, opaque)).headers.get("x-ignored-fields"), "background");
  assert.equal((await (await post(strict, opaque)).json()).error.code, "unused_field");
});

/** A mask: white to the right of a share of its width. */
async function makeMask(width: number, height: number, share = 0.5): Promise<Blob> {
  const data = new Uint8Array(width * height * 3);
  for (let i = 0; i < data.length; i++) {
    if (Math.floor(i / 3) % width >= share * width) data[i] = 255;
  }
  return new Blob([(await encodeImage({ width, height, data }, { format: "png" })).bytes]);
}

const painter = (info: Partial<ModelInfo> = {}) =>
  new FakeEngine({
    info: {
      ...{ defaultTask: "T2I", supportedTasks: ["T2I", "TI2I"], maxImages: 2 },
      ...{ inpainting: { strength: 0.8 }, ...info },
    },
  });

Deno.test("POST /v1/images/edits paints what a mask leaves it, by file and by address, n times", async () => {
  await using service = await testService({ engine: painter() });
  const image = new Blob([await makePng(64, 48)]);
  const mask = await makeMask(128, 96);
  const url = `data:image/png;base64,${(await mask.bytes()).toBase64()}`;
  for (const given of [mask, url]) {
    const response = await post(service, {
      image,
      mask: given,
      prompt: "a",
      strength: "0.4",
      n: "2",
    });
    assert.equal(response.status, 200, await response.clone().text());
    assert.equal(response.headers.get("x-ignored-fields"), null);
  }
  assert.equal(service.engine.requests.length, 4);
  for (const request of service.engine.requests) {
    const [{ width, height, data }] = request.mask as [Image];
    assert.deepEqual([width, height], [request.width, request.height]);
    assert.deepEqual([data[0], data[3 * (width - 1)]], [0, 255]);
    assert.deepEqual([request.images![0]!.width, request.strength], [width, 0.4]);
  }
  assert.deepEqual([...new Set(service.engine.checked.map(({ hasMask }) => hasMask))], [true]);
});

Deno.test("POST /v1/images/edits draws the area around a mask at the size, and keeps the image's own size", async () => {
  await using service = await testService({ engine: painter() });
  const image = new Blob([await makePng(77, 51)]);
  const mask = await makeMask(77, 51);
  const fields = { image, prompt: "a", size: "64x64", padding_mask_crop: "8" };
  const response = await post(service, { ...fields, mask });
  assert.equal(response.status, 200, await response.clone().text());
  const [request] = service.engine.requests;
  assert.deepEqual([request!.width, request!.height], [77, 51]);
  assert.deepEqual(request!.cropSize, { width: 64, height: 64 });
  assert.equal(request!.mask![0]!.data.length, 77 * 51 * 3);
  const [{ b64_json: made }] = (await response.json()).data;
  assert.equal((await decodeImage(Uint8Array.fromBase64(made))).width, 77);
  const unmasked = await post(service, fields);
  assert.equal(unmasked.headers.get("x-ignored-fields"), "padding_mask_crop");
  await unmasked.body?.cancel();
});

Deno.test("POST /v1/images/edits keeps a single image whole where the model does, and gives its size back", async () => {
  const limits = { multiple: 16, maxPixels: 96 * 96, minSide: 64, maxAspect: 4 };
  const imageLimits = { ...limits, alone: { maxPixels: 128 * 128, minSide: 64, maxSide: 256 } };
  await using service = await testService({ engine: painter({ imageLimits, maxImages: 2 }) });
  const image = new Blob([await makePng(110, 51)]);
  const sent = async (fields: Parameters<typeof post>[1]) => {
    const response = await post(service, { prompt: "a", ...fields });
    assert.equal(response.status, 200, await response.clone().text());
    await response.body?.cancel();
    const { width, height, cropSize, images } = service.engine.requests.at(-1)!;
    return [[width, height], cropSize, ...images!.map(({ width, height }) => [width, height])];
  };
  const padded = { width: 112, height: 64 };
  assert.deepEqual(await sent({ image }), [[110, 51], padded, [112, 64]]);
  assert.deepEqual(await sent({ image, size: "64x80" }), [[64, 80], undefined, [112, 64]]);
  const whole = new Blob([await makePng(112, 80)]);
  assert.deepEqual(await sent({ image: whole }), [[112, 80], undefined, [112, 80]]);
  // Several are cut, and a mask's image has the size of the result.
  assert.deepEqual(await sent({ "image[]": [whole, whole] }), [
    ...[[112, 80], undefined, [112, 80], [112, 80]],
  ]);
  const mask = await makeMask(112, 80);
  assert.deepEqual((await sent({ image: whole, mask, size: "64x80" })).slice(1), [
    ...[undefined, [64, 80]],
  ]);
});

Deno.test("POST /v1/images/edits grows an image to its sides, repeats its edges, and masks what is added", async () => {
  await using service = await testService({ engine: painter() });
  const image = new Blob([await makePng(64, 48)]);
  const form = new FormData();
  for (const side of [16, 0, 0, 16]) form.append("outpaint", String(side));
  form.set("prompt", "a");
  form.set("image", image);
  const response = await service.get(PATH, { method: "POST", body: form });
  assert.equal(response.status, 200, await response.clone().text());
  const [request] = service.engine.requests;
  const { width, height, images, mask } = request!;
  assert.deepEqual([width, height, images![0]!.width], [80, 64, 80]);
  const at = (data: Uint8Array, x: number, y: number) => data[3 * (y * 80 + x)];
  const white = mask![0]!.data;
  assert.deepEqual(
    [at(white, 15, 0), at(white, 16, 0), at(white, 79, 47), at(white, 79, 48)],
    [255, 0, 0, 255],
  );
  const { data } = images![0]!;
  assert.equal(at(data, 0, 5), at(data, 16, 5));
  assert.equal(at(data, 70, 63), at(data, 70, 47));
  form.set("mask", image);
  const refused = await service.get(PATH, { method: "POST", body: form });
  const { error } = await refused.json();
  assert.deepEqual([refused.status, error.param], [400, "mask"], error.message);
});

Deno.test("POST /v1/images/edits takes files in 'url', and refuses a second mask under any name", async () => {
  await using service = await testService({ engine: painter() });
  const [image, mask] = [new Blob([await makePng(64, 48)]), await makeMask(64, 48)];
  const response = await post(service, { image, url: image, prompt: "a" });
  assert.equal(response.status, 200, await response.clone().text());
  assert.equal(service.engine.requests[0]!.images!.length, 2);
  const address = `data:image/png;base64,${(await mask.bytes()).toBase64()}`;
  for (const mask_image of [mask, address]) {
    const answer = await post(service, { image, mask, mask_image, prompt: "a" });
    assert.equal(answer.status, 400);
    assert.equal((await answer.json()).error.param, "mask");
  }
});

Deno.test("POST /v1/images/edits takes a single image with holes for its own mask", async () => {
  const imageLimits = { multiple: 16, maxPixels: 96 * 96, minSide: 32, maxAspect: 4 };
  await using service = await testService({ engine: painter({ imageLimits }) });
  const data = new Uint8Array(72 * 64 * 4).fill(255, 72 * 32 * 4);
  const holed = { width: 72, height: 64, channels: 4 as const, data };
  const image = new Blob([(await encodeImage(holed, { format: "png" })).bytes]);
  const own = await post(service, { image, prompt: "a", strength: "0.3", output_format: "png" });
  assert.equal(own.status, 200, await own.clone().text());
  assert.equal(own.headers.get("x-ignored-fields"), null);
  const { data: [made] } = await own.json();
  const text = new TextDecoder("latin1").decode(Uint8Array.fromBase64(made.b64_json));
  assert.match(text, /"masked":true/);
  const several = await post(service, { "image[]": [image, image], prompt: "a" });
  await several.body?.cancel();
  const [first, second] = service.engine.requests;
  assert.deepEqual([first!.strength, second!.mask], [0.3, undefined]);
  const [{ width, height, data: mask }] = first!.mask as [Image];
  assert.deepEqual([width, height, mask[0], mask.at(-1)], [64, 64, 255, 0]);
  assert.deepEqual([first!.images![0]!.width, first!.images![0]!.height], [64, 64]);
});

Deno.test("POST /v1/images/edits paints in the image's own size, cut to what the model makes, unless a size is asked for", async () => {
  await using service = await testService({ engine: painter() });
  const [width, height] = [72, 68];
  const data = Uint8Array.from({ length: width * height * 4 }, (_, i) => i % 4 === 3 ? 255 : i);
  const holes = data.slice();
  for (let i = 3; i < holes.length / 2; i += 4) holes[i] = 0;
  const blob = async (pixels: Uint8Array<ArrayBuffer>) => {
    const image = { width, height, channels: 4 as const, data: pixels };
    return new Blob([(await encodeImage(image, { format: "png" })).bytes]);
  };
  const mask = await makeMask(2 * width, 2 * height);
  for (const own of [{ image: await blob(data), mask }, { image: await blob(holes) }]) {
    const response = await post(service, { ...own, prompt: "a" });
    assert.equal(response.status, 200, await response.text());
    const request = service.engine.requests.pop()!;
    assert.deepEqual([request.width, request.height], [64, 64]);
    const [{ data: given }] = request.images as [Image];
    // The last pixel: four are cut off at each side, two above and below.
    const last = 4 * (65 * width + 67);
    assert.deepEqual([...given.slice(-3)], [...data.slice(last, last + 3)]);
    const [{ data: painted }] = request.mask as [Image];
    assert.deepEqual([painted.length, given.length], [64 * 64 * 3, 64 * 64 * 3]);
  }
  const asked = await post(service, { image: await blob(data), mask, prompt: "a", size: "80x80" });
  assert.equal(asked.status, 200, await asked.text());
  assert.deepEqual(service.engine.requests.pop()!.images![0]!.width, 80);
});

Deno.test("POST /v1/images/edits paints around an image that is contained in a larger one", async () => {
  await using service = await testService({ engine: painter() });
  const image = new Blob([await makePng(48, 48)]);
  const mask = await makeMask(48, 48, 1);
  const response = await post(service, { image, mask, prompt: "a", size: "96x48", fit: "contain" });
  assert.equal(response.status, 200, await response.text());
  const [{ data }] = service.engine.requests[0]!.mask as [Image];
  const row = [0, 23, 24, 71, 72, 95].map((x) => data[3 * x]);
  assert.deepEqual(row, [255, 255, 0, 0, 255, 255]);
});

Deno.test("POST /v1/images/edits refuses masks of no use in a sentence", async () => {
  await using service = await testService({ engine: painter() });
  const image = new Blob([await makePng(64, 48)]);
  const cases: [Blob, RegExp][] = [
    [await makeMask(64, 64), /Cannot use a mask of 64x64: the image has 64x48/],
    [await makeMask(64, 48, 1), /Cannot use the mask: it keeps all of the image/],
    [new Blob(["nonsense"]), /^Failed to process mask: Cannot .* of no known format/],
    [
      new Blob([(await makePng(64, 48)).subarray(0, 60)]),
      /^Failed .* mask: .* the file is truncated/,
    ],
  ];
  for (const [mask, message] of cases) {
    const response = await post(service, { image, mask, prompt: "a" });
    const body = await response.json();
    assert.equal(response.status, 400);
    assert.ok(isErrorBody(body));
    assert.equal(body.error.param, "mask");
    assert.match(body.error.message, message);
  }
  assert.equal(service.engine.requests.length, 0);
});

Deno.test("POST /v1/images/edits takes the shape of a photo as it is seen, not as it is stored", async () => {
  await using service = await testService({ engine: editor() });
  // A TIFF structure with one entry: orientation 6, a quarter turn.
  const exif = Uint8Array.from(
    [0x49, 0x49, 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0],
  );
  const image = { width: 96, height: 32, data: new Uint8Array(96 * 32 * 3) };
  const photo = await encodeJpeg(image, 90, exif);
  await (await post(service, { image: new Blob([photo]), prompt: "a" })).body?.cancel();
  const { width, height } = service.engine.requests[0]!;
  assert.deepEqual([width, height], [32, 96]);
});

Deno.test("POST /v1/images/edits leaves no uploads behind", async () => {
  await using service = await testService({ engine: editor() });
  await (await post(service, { image: new Blob([await makePng()]), prompt: "a" })).body?.cancel();
  await (await post(service, { image: new Blob(["no image"]), prompt: "a" })).body?.cancel();
  await until(() => keptInputs(service).length === 0);
});

Deno.test("POST /v1/images/edits takes fewer images where the second one ends a video", async () => {
  const info = { defaultTask: "T2I", supportedTasks: ["T2I", "TI2I", "I2V"] } as const;
  const engine = new FakeEngine({ info: { ...info, maxImages: 2, maxEditImages: 1 } });
  await using service = await testService({ engine });
  const png = new Blob([await makePng()]);
  const answer = await post(service, { "image[]": [png, png], prompt: "a" });
  assert.equal(answer.status, 400);
  assert.match((await answer.json()).detail, /^Cannot use 2 images: this model takes 1$/);
});

Deno.test("POST /v1/images/edits says what is wrong with a request", async () => {
  await using service = await testService({ engine: editor() });
  const png = new Blob([await makePng()]);
  const cases: [Parameters<typeof post>[1], number, RegExp][] = [
    [{ prompt: "a" }, 422, /^Field 'image' or 'url' is required$/],
    [{ image: png }, 422, /Field required/],
    [
      { image: new Blob(["nonsense"]), prompt: "a" },
      400,
      /^Failed to process image source: Cannot/,
    ],
    [{ url: "http://127.0.0.1/a.png", prompt: "a" }, 400, /^Failed to process.*not public;/],
    [{ url: "file:///etc/passwd", prompt: "a" }, 400, /^Failed to process.*scheme 'file:'/],
    [{ url: "data:image/png;base64,$$", prompt: "a" }, 400, /base64 is not valid$/],
    [{ "image[]": [png, png, png], prompt: "a" }, 400, /Cannot use 3 images: this model takes 2$/],
    [{ image: png, prompt: "a", size: "65x64" }, 400, /nearest size is 64x64$/],
    [
      { image: png, prompt: "a", task_type: "T2I" },
      400,
      /^Cannot do T2I: it takes no input image; this model does/,
    ],
    [{ image: png, prompt: "a", n: "0" }, 400, /^n must be/],
    [{ image: png, prompt: "a", n: "two" }, 422, /valid integer/],
    [{ image: png, prompt: "a", image_path: "/etc/passwd" }, 400, /may not name paths/],
  ];
  for (const [fields, status, message] of cases) {
    const response = await post(service, fields);
    const body = await response.json();
    assert.equal(response.status, status, JSON.stringify(body));
    assert.ok(isErrorBody(body));
    const detail = typeof body.detail === "string" ? body.detail : body.detail[0].msg;
    assert.match(detail, message);
  }
  assert.equal(service.engine.requests.length, 0);
});

Deno.test("POST /v1/images/edits on a model that takes no image says what it does", async () => {
  await using service = await testService();
  const response = await post(service, { image: new Blob([await makePng()]), prompt: "a" });
  assert.equal(response.status, 400);
  assert.equal(
    (await response.json()).detail,
    "Cannot do T2I: it takes no input image; this model does T2V, T2I",
  );
});

Deno.test("POST /v1/images/edits streams previews, then the image", async () => {
  await using service = await testService({ engine: editor(60) });
  const response = await post(service, {
    image: new Blob([await makePng()]),
    prompt: "a",
    stream: "true",
    partial_images: "2",
  });
  const names = (await response.text()).match(/(?<=^event: ).*/gm);
  assert.deepEqual(names, [
    "image_edit.partial_image",
    "image_edit.partial_image",
    "image_edit.completed",
  ]);
});
