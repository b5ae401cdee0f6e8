/** Images over HTTP: what is asked for, and what comes of it. */
import { strict as assert } from "node:assert";
import { Buffer } from "node:buffer";
import { decodeImage } from "../../media/decode.ts";
import { readImageText } from "../../media/encode.ts";
import type { TaskType } from "../../engine/types.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { isErrorBody, testService } from "../fakes/service.ts";
import { recipeIn } from "../support/recipe_in.ts";

const PATH = "/v1/images/generations";
const ID = /^img_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

Deno.test(`POST ${PATH} answers the file and a link to it, a JPEG of the model's default size`, async () => {
  await using service = await testService();
  const response = await service.post(PATH, { prompt: "a red circle", seed: 42 });
  assert.equal(response.status, 200);
  const body = await response.json();
  assert.match(body.id, ID);
  assert.ok(Math.abs(body.created - Date.now() / 1000) < 5);
  assert.ok(body.inference_time_s > 0 && body.peak_memory_mb > 0);
  assert.equal(body.usage, null);
  assert.deepEqual(body.data, [{
    b64_json: body.data[0].b64_json,
    url: `/v1/images/${body.id}/content`,
    seed: 42,
    revised_prompt: "a red circle",
    file_path: body.data[0].file_path,
    resize: null,
  }]);
  assert.ok(body.data[0].file_path.startsWith(service.folder));

  const content = await service.get(body.data[0].url);
  assert.equal(content.headers.get("content-type"), "image/jpeg");
  const bytes = await content.bytes();
  assert.deepEqual(bytes, await Deno.readFile(body.data[0].file_path));
  assert.deepEqual(bytes, Uint8Array.fromBase64(body.data[0].b64_json));
  const { width, height } = await decodeImage(bytes);
  assert.deepEqual([width, height], [64, 48]);
  assert.deepEqual(service.engine.requests, [{
    prompt: "a red circle",
    negativePrompt: "",
    width: 64,
    height: 48,
    numFrames: 1,
    seed: 42,
    numInferenceSteps: 4,
    guidanceScale: 3.5,
    taskType: "T2I",
    quality: "lossless",
    loras: [],
    images: [],
  }]);
});

Deno.test(`POST ${PATH} passes every parameter on and keeps the recipe in the PNG`, async () => {
  await using service = await testService();
  const response = await service.post(PATH, {
    prompt: "ein Kreis ○",
    model: "gradients",
    negative_prompt: "blur",
    size: " 128 X 64 ",
    height: 96,
    seed: 7,
    num_inference_steps: 3,
    guidance_scale: 5,
    n: 1,
    response_format: "b64_json",
    output_format: "png",
    quality: "high",
    background: "opaque",
    generator_device: "cpu",
    task_type: " t2i ",
  });
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("x-ignored-fields"), null);
  const { data } = await response.json();
  assert.equal(data[0].url, null);
  const bytes = new Uint8Array(Buffer.from(data[0].b64_json, "base64"));
  const { width, height } = await decodeImage(bytes);
  assert.deepEqual([width, height], [128, 96]);
  const { Software, parameters, denoise, ...others } = readImageText(bytes);
  assert.match(Software!, /^denoise \d/);
  assert.deepEqual(others, {});
  assert.deepEqual(JSON.parse(denoise!), {
    prompt: "ein Kreis ○",
    negative_prompt: "blur",
    model: "gradients",
    seed: 7,
    size: "128x96",
    num_inference_steps: 3,
    quality: "high",
    guidance_scale: 5,
  });
  assert.equal(
    parameters,
    "ein Kreis ○\nNegative prompt: blur\nSteps: 3, Schedule type: Automatic, CFG scale: 5, Seed: 7, " +
      `Size: 128x96, Model: gradients, Version: ${Software}`,
  );
});

Deno.test(`POST ${PATH} makes n images, each with a seed and a variant of its own`, async () => {
  await using service = await testService();
  const body = { prompt: "a", n: 3, seed: 5, output_format: "png" };
  const { id, data } = await (await service.post(PATH, body)).json();
  assert.deepEqual(
    data.map(({ url }: { url: string }) => url),
    [0, 1, 2].map((k) => `/v1/images/${id}/content?variant=${k}`),
  );
  assert.deepEqual(service.engine.requests.map(({ seed }) => seed), [5, 6, 7]);
  for (const [index, { url }] of data.entries()) {
    assert.equal(recipeIn(await (await service.get(url)).bytes()).seed, 5 + index);
  }
  await service.post(PATH, { prompt: "a", n: 2, seed: [9, 1] });
  assert.deepEqual(service.engine.requests.slice(3).map(({ seed }) => seed), [9, 1]);
});

const FORMATS: [body: Record<string, unknown>, type: string][] = [
  [{}, "image/jpeg"],
  [{ output_format: "jpg" }, "image/jpeg"],
  [{ output_format: "jpeg" }, "image/jpeg"],
  [{ output_format: "png" }, "image/png"],
  [{ output_format: "webp" }, "image/webp"],
  [{ background: "transparent" }, "image/png"],
  [{ background: "transparent", output_format: "webp" }, "image/webp"],
];

for (const [fields, type] of FORMATS) {
  Deno.test(`POST ${PATH} with ${JSON.stringify(fields)} makes ${type}`, async () => {
    await using service = await testService();
    const { data } = await (await service.post(PATH, { prompt: "a", ...fields })).json();
    const content = await service.get(data[0].url);
    assert.equal(content.headers.get("content-type"), type);
    await decodeImage(await content.bytes());
  });
}

Deno.test(`POST ${PATH} makes smaller files at lower output quality`, async () => {
  await using service = await testService();
  const size = async (fields: Record<string, unknown>) => {
    const body = { prompt: "a", response_format: "b64_json", size: "256x256", ...fields };
    return (await (await service.post(PATH, body)).json()).data[0].b64_json.length;
  };
  const [low, medium, maximum, zero] = [
    await size({ output_quality: "low" }),
    await size({ output_quality: "medium" }),
    await size({ output_quality: "maximum" }),
    await size({ output_quality: "maximum", output_compression: 0 }),
  ];
  assert.ok(zero < low && low < medium && medium < maximum, `${zero} ${low} ${medium} ${maximum}`);
});

Deno.test(`POST ${PATH} upscales and decodes with a tiny decoder where the server has the networks`, async () => {
  await using service = await testService({
    engine: new FakeEngine({ info: { optionalParts: ["tinyDecoder", "upscaler"] } }),
  });
  const response = await service.post(PATH, {
    ...{ prompt: "a", enable_upscaling: "true", upscaling_scale: 2, decoder: "tiny" },
  });
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("x-ignored-fields"), null);
  const [request] = service.engine.requests;
  assert.deepEqual(
    [request!.enableUpscaling, request!.upscalingScale, request!.decoder],
    [true, 2, "tiny"],
  );
});

Deno.test(`POST ${PATH} refuses upscaling and the tiny decoder where the networks are missing`, async () => {
  await using service = await testService();
  for (const [field, value] of [["enable_upscaling", true], ["decoder", "tiny"]] as const) {
    const response = await service.post(PATH, { prompt: "a", [field]: value });
    assert.equal(response.status, 400);
    const { error } = await response.json();
    assert.equal(error.param, field);
    assert.match(
      error.message,
      /name (?:a|its) file with --(?:upscaler|tiny-decoder) at the start/,
    );
  }
  const idle = await service.post(PATH, { prompt: "a", upscaling_scale: 2 });
  assert.equal(idle.headers.get("x-ignored-fields"), "upscaling_scale");
  const neutral = { prompt: "a", enable_upscaling: false, upscaling_scale: 4 };
  assert.equal((await service.post(PATH, neutral)).headers.get("x-ignored-fields"), null);
});

Deno.test(`POST ${PATH} on a model without image output says what it can do`, async () => {
  const cases: [TaskType[], string][] = [
    [["T2V"], "This pipeline does not support IMAGE output; supported task types: T2V"],
    [
      ["I2I"],
      "Cannot do I2I: it needs an input image, and there is none; send 'image' or 'url' to /v1/images/edits",
    ],
  ];
  for (const [supportedTasks, message] of cases) {
    const info = { supportedTasks, defaultTask: supportedTasks.at(-1)! };
    await using service = await testService({ engine: new FakeEngine({ info }) });
    const response = await service.post(PATH, { prompt: "a" });
    assert.equal(response.status, 400);
    assert.ok((await response.json()).detail.startsWith(message));
  }
});

Deno.test(`POST ${PATH} takes a task that may do without an image as one from text alone`, async () => {
  const info = { supportedTasks: ["T2V", "TI2I", "T2I"], maxImages: 1 } as const;
  await using service = await testService({ engine: new FakeEngine({ info }) });
  for (const fields of [{}, { task_type: "ti2i" }]) {
    const response = await service.post(PATH, { prompt: "a", ...fields });
    assert.equal(response.status, 200, await response.text());
  }
  assert.deepEqual(service.engine.requests.map(({ taskType }) => taskType), ["T2I", "T2I"]);
});

Deno.test(`POST ${PATH} rewrites the prompt once for all images when asked to`, async () => {
  const prompts: string[] = [];
  const enhancer = {
    enhance(prompt: string, task: string) {
      prompts.push(`${task}: ${prompt}`);
      return Promise.resolve(`a fine ${prompt}`);
    },
  };
  await using service = await testService({ enhancer });
  const body = { prompt: "circle", enhance_prompt: true, n: 2 };
  const { data } = await (await service.post(PATH, body)).json();
  assert.deepEqual(prompts, ["image: circle"]);
  assert.deepEqual(service.engine.requests.map(({ prompt }) => prompt), [
    "a fine circle",
    "a fine circle",
  ]);
  assert.equal(data[1].revised_prompt, "a fine circle");
});

Deno.test(`POST ${PATH} draws a seed for each request, and tells it`, async () => {
  await using service = await testService();
  const make = async (fields: Record<string, unknown>) => {
    const body = { prompt: "a", output_format: "png", ...fields };
    const { data } = await (await service.post(PATH, body)).json();
    return data as { seed: number; b64_json: string }[];
  };
  const items = [...await make({}), ...await make({ seed: null }), ...await make({ seed: -1 })];
  const seeds = items.map(({ seed }) => seed);
  assert.equal(new Set(seeds).size, 3);
  for (const { seed, b64_json } of items) {
    assert.equal(recipeIn(Uint8Array.fromBase64(b64_json)).seed, seed);
    assert.equal((await make({ seed }))[0]!.b64_json, b64_json, "the same image again");
  }
  const [first, second] = await make({ n: 2 });
  assert.equal(second!.seed, first!.seed + 1);
  const { data } = await (await service.post(PATH, { prompt: "a", stream: true })).text().then(
    (text) => ({ data: JSON.parse(/^data: (.*)$/m.exec(text)![1]!) }),
  );
  assert.equal(data.seed, service.engine.requests.at(-1)!.seed);
});

Deno.test(`POST ${PATH} uses the server's own seed where it has one`, async () => {
  await using service = await testService({ settings: { defaultSeed: 5 } });
  for (const fields of [{}, { n: 2 }, { seed: 7 }]) {
    await (await service.post(PATH, { prompt: "a", ...fields })).body?.cancel();
  }
  assert.deepEqual(service.engine.requests.map(({ seed }) => seed), [5, 5, 6, 7]);
  const { data } = await (await service.post(PATH, { prompt: "a", seed: -1 })).json();
  assert.ok(data[0].seed !== 5);
});

/** What is asked for, and whether the answer has the file and the link. */
const RESPONSES: [fields: Record<string, unknown>, hasFile: boolean, hasLink: boolean][] = [
  [{}, true, true],
  [{ response_format: null }, true, true],
  [{ response_format: "b64_json" }, true, false],
  [{ response_format: "url" }, false, true],
  [{ model: "dall-e-3" }, true, true],
  // Their clients take any link for a whole address, and read it rather than the file.
  [{ model: "gpt-image-1" }, true, false],
  [{ model: "chatgpt-image-latest" }, true, false],
  [{ model: "gpt-image-1", response_format: "url" }, false, true],
];

for (const [fields, hasFile, hasLink] of RESPONSES) {
  Deno.test(`POST ${PATH} with ${JSON.stringify(fields)} answers as its client reads`, async () => {
    await using service = await testService();
    const { id, data } = await (await service.post(PATH, { prompt: "a", ...fields })).json();
    assert.equal(data[0].b64_json !== null, hasFile);
    assert.equal(data[0].url, hasLink ? `/v1/images/${id}/content` : null);
  });
}

Deno.test(`POST ${PATH} makes links whole where the server knows its address`, async () => {
  const publicUrl = "https://images.example.org/denoise";
  await using service = await testService({ settings: { publicUrl } });
  const { id, data } = await (await service.post(PATH, { prompt: "a", n: 2 })).json();
  assert.equal(data[1].url, `${publicUrl}/v1/images/${id}/content?variant=1`);
  const { servers } = await (await service.get("/openapi.json")).json();
  assert.deepEqual(servers, [{ url: publicUrl }]);
});

Deno.test(`POST ${PATH} without kept results answers b64_json and refuses links`, async () => {
  await using service = await testService({ keep: false });
  const { id, data } = await (await service.post(PATH, { prompt: "a" })).json();
  assert.ok(data[0].b64_json);
  assert.equal(data[0].file_path, null);
  const refused = await service.post(PATH, { prompt: "a", response_format: "url" });
  assert.equal(refused.status, 400);
  const content = await service.get(`/v1/images/${id}/content`);
  assert.equal(content.status, 404);
  assert.match((await content.json()).detail, /^Image was not persisted on disk/);
});

Deno.test(`POST ${PATH} answers 400 with the engine's words for a refusal, 500 without any for a fault`, async () => {
  const refusal = new RangeError("Cannot generate: 9 GiB are needed, and 8 GiB are allowed");
  {
    await using service = await testService({ engine: new FakeEngine({ failure: refusal }) });
    const response = await service.post(PATH, { prompt: "a" });
    assert.equal(response.status, 400);
    assert.equal((await response.json()).detail, refusal.message);
  }
  await using service = await testService({
    engine: new FakeEngine({ failure: new Error("secret /home/x") }),
  });
  const response = await service.post(PATH, { prompt: "a" }, { headers: { "x-request-id": "r1" } });
  assert.equal(response.status, 500);
  assert.equal(response.headers.get("x-should-retry"), "false");
  assert.equal(response.headers.get("x-request-id"), "r1");
  const text = await response.text();
  assert.ok(isErrorBody(JSON.parse(text)));
  assert.equal(JSON.parse(text).error.code, "internal_error");
  assert.ok(text.includes("r1") && !text.includes("secret"));
  assert.ok(service.lines.some((line) => line.includes("secret")), "the log says what happened");
});
