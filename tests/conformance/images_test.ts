import { strict as assert } from "node:assert";
import { Buffer } from "node:buffer";
import { decodeImage } from "../../media/decode.ts";
import { readImageText } from "../../media/encode.ts";
import type { TaskType } from "../../engine/types.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { isErrorBody, testService } from "../fakes/service.ts";

const PATH = "/v1/images/generations";
const ID = /^img_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Bodies that are refused: what is wrong, the body, the status, and a part of the message. */
const REFUSED: [title: string, body: unknown, status: number, message: string | RegExp][] = [
  ["a missing prompt", {}, 422, "Field required"],
  ["a prompt of the wrong type", { prompt: 5 }, 422, "Input should be a valid string"],
  ["a body that is a list", [1], 422, "Input should be a valid dictionary"],
  ["a body that is null", null, 422, "Input should be a valid dictionary"],
  ["a blank prompt", { prompt: " \n" }, 400, "prompt is empty"],
  ["a prompt of 100 kB", { prompt: "a".repeat(100_000) }, 400, "100000 characters"],
  ["n as words", { prompt: "a", n: "two" }, 422, "Input should be a valid integer"],
  ["n as a fraction in text", { prompt: "a", n: "1.5" }, 422, "Input should be a valid integer"],
  ["n as a fraction", { prompt: "a", n: 1.5 }, 422, "Input should be a valid integer"],
  ["n of 0", { prompt: "a", n: 0 }, 400, "n must be between 1 and 10, got 0"],
  ["n of 11", { prompt: "a", n: 11 }, 400, "n must be between 1 and 10, got 11"],
  ["size as words", { prompt: "a", size: "big" }, 400, "positive WIDTHxHEIGHT"],
  ["size of zero", { prompt: "a", size: "0x64" }, 400, "positive WIDTHxHEIGHT"],
  ["size off the grid", { prompt: "a", size: "70x64" }, 400, "the nearest size is 64x64"],
  ["size too large", { prompt: "a", size: "1024x1024" }, 400, "the nearest size is 256x256"],
  ["width below 1", { prompt: "a", width: 0 }, 400, "width must be positive"],
  ["height off the grid", { prompt: "a", height: 50 }, 400, "multiples of 16"],
  ["steps of 0", { prompt: "a", num_inference_steps: 0 }, 400, "must be positive"],
  ["too many steps", { prompt: "a", num_inference_steps: 51 }, 400, "at most 50, got 51"],
  ["negative guidance", { prompt: "a", guidance_scale: -1 }, 400, "must be non-negative"],
  ["infinite guidance", '{"prompt":"a","guidance_scale":1e999}', 422, "finite number"],
  ["a negative seed", { prompt: "a", seed: -2 }, 400, "seed must be a non-negative int"],
  ["a seed as text", { prompt: "a", seed: "x" }, 422, "integer or a list"],
  ["an empty seed list", { prompt: "a", seed: [] }, 400, "seed list must not be empty"],
  [
    "a seed list of another length",
    { prompt: "a", seed: [1, 2], n: 3 },
    400,
    "Cannot use 2 seeds for 3 outputs",
  ],
  [
    "response_format",
    { prompt: "a", response_format: "x" },
    400,
    "response_format=x is not supported",
  ],
  ["quality", { prompt: "a", quality: "best" }, 400, /quality must be one of \['auto', 'exact',/],
  ["output_format", { prompt: "a", output_format: "gif" }, 400, "output_format must be one of"],
  ["background", { prompt: "a", background: "red" }, 400, "background must be one of"],
  [
    "a transparent JPEG",
    { prompt: "a", background: "transparent", output_format: "jpg" },
    400,
    "transparent background as JPEG",
  ],
  ["output_compression", { prompt: "a", output_compression: 101 }, 400, "between 0 and 100"],
  ["generator_device", { prompt: "a", generator_device: "tpu" }, 400, "must be one of"],
  ["service_tier", { prompt: "a", service_tier: "priority" }, 400, "must be one of"],
  [
    "enhance_prompt",
    { prompt: "a", enhance_prompt: true },
    400,
    "Prompt enhancement requires --prompt-enhancer-config",
  ],
  ["an unknown task", { prompt: "a", task_type: "T2X" }, 400, "Unknown task_type 'T2X'; choose"],
  [
    "an unsupported task",
    { prompt: "a", task_type: "ti2i" },
    400,
    "Unsupported task_type TI2I; this pipeline supports ['T2V', 'T2I']",
  ],
  [
    "a task with another output",
    { prompt: "a", task_type: "t2v" },
    400,
    "task_type T2V produces VIDEO, but this endpoint produces IMAGE",
  ],
  ["output_path", { prompt: "a", output_path: "/etc" }, 400, "may not name paths"],
  ["perf_dump_path", { prompt: "a", perf_dump_path: "x" }, 400, "may not name paths"],
  ["extra_params", { prompt: "a", extra_params: "{" }, 400, "extra_params is not valid JSON"],
  ["extra_body", { prompt: "a", extra_body: [1] }, 400, "extra_body: it must be a JSON object"],
  ["a wrong type in extra_body", { prompt: "a", extra_body: { n: "x" } }, 422, "valid integer"],
  ["malformed JSON", "{", 400, "Cannot read the body as JSON"],
  ["an empty body", "", 400, "it is empty"],
];

for (const [title, body, status, message] of REFUSED) {
  Deno.test(`POST ${PATH} refuses ${title} with ${status}, before any work`, async () => {
    await using service = await testService();
    const response = await service.post(PATH, body);
    const answer = await response.json();
    assert.equal(response.status, status, JSON.stringify(answer));
    assert.ok(isErrorBody(answer));
    const { error } = answer;
    if (typeof message === "string") assert.ok(error.message.includes(message), error.message);
    else assert.match(error.message, message);
    assert.equal(Array.isArray(answer.detail), status === 422);
    assert.equal(service.engine.requests.length, 0);
  });
}

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

Deno.test(`POST ${PATH} passes every tier of quality on, the old name of one too`, async () => {
  await using service = await testService();
  const tiers = ["auto", "exact", "lossless", "high", "extra-high", null];
  for (const quality of tiers) await service.post(PATH, { prompt: "a", quality });
  assert.deepEqual(
    service.engine.requests.map(({ quality }) => quality),
    ["lossless", "exact", "lossless", "high", "lossless", "lossless"],
  );
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
  const { Software, ...text } = readImageText(bytes);
  assert.match(Software!, /^denoise \d/);
  assert.deepEqual(text, {
    prompt: "ein Kreis ○",
    negative_prompt: "blur",
    model: "gradients",
    seed: "7",
    size: "128x96",
    num_inference_steps: "3",
    quality: "high",
    guidance_scale: "5",
    parameters:
      "ein Kreis ○\nNegative prompt: blur\nSteps: 3, CFG scale: 5, Seed: 7, Size: 128x96, " +
      `Model: gradients, Version: ${Software}`,
  });
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
    const text = readImageText(await (await service.get(url)).bytes());
    assert.equal(text["seed"], String(5 + index));
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

Deno.test(`POST ${PATH} takes null for every optional field; response_format null is b64_json`, async () => {
  await using service = await testService();
  const names = "model n size width height quality background output_format seed stream style " +
    "user num_inference_steps guidance_scale negative_prompt task_type enhance_prompt extra_body";
  const nulls = Object.fromEntries(names.split(" ").map((name) => [name, null]));
  const response = await service.post(PATH, { prompt: "a", response_format: null, ...nulls });
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("x-ignored-fields"), null);
  assert.ok((await response.json()).data[0].b64_json);
});

Deno.test(`POST ${PATH} flattens extra_body, extra_json and extra_params under what the body says`, async () => {
  await using service = await testService();
  await service.post(PATH, {
    prompt: "a",
    seed: 1,
    extra_body: { seed: 2, num_inference_steps: 2 },
    extra_json: '{"guidance_scale": 2}',
    extra_params: { negative_prompt: "x" },
  });
  const [request] = service.engine.requests;
  assert.equal(request!.seed, 1);
  assert.equal(request!.numInferenceSteps, 2);
  assert.equal(request!.guidanceScale, 2);
  assert.equal(request!.negativePrompt, "x");
});

Deno.test(`POST ${PATH} names the fields that had no effect, and only those`, async () => {
  await using service = await testService();
  const response = await service.post(PATH, {
    prompt: "a",
    model: "gpt-image-1",
    style: "natural",
    enable_teacache: false,
    generator_device: "cuda",
    "größe": 1,
    clip_size: 5,
  });
  assert.equal(response.status, 200);
  assert.equal(
    response.headers.get("x-ignored-fields"),
    "style, gr%C3%B6%C3%9Fe, clip_size, model, generator_device",
  );
  assert.ok(service.lines.some((line) => line.includes("clip_size")));
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
    assert.match(error.message, /name its file with --(upscaler|tiny-decoder) at the start/);
  }
  const idle = await service.post(PATH, { prompt: "a", upscaling_scale: 2 });
  assert.equal(idle.headers.get("x-ignored-fields"), "upscaling_scale");
  const neutral = { prompt: "a", enable_upscaling: false, upscaling_scale: 4 };
  assert.equal((await service.post(PATH, neutral)).headers.get("x-ignored-fields"), null);
});

Deno.test(`POST ${PATH} with strict fields refuses one without effect and names the nearest`, async () => {
  await using service = await testService({ settings: { strictFields: true } });
  const unknown = await service.post(PATH, { prompt: "a", num_inference_step: 3 });
  assert.equal(unknown.status, 400);
  const { error } = await unknown.json();
  assert.equal(error.code, "unknown_field");
  assert.ok(error.message.includes("the nearest known field is 'num_inference_steps'"));
  assert.equal((await service.post(PATH, { prompt: "a", style: "natural" })).status, 400);
  assert.equal((await service.post(PATH, { prompt: "a", model: "gradients" })).status, 200);
});

Deno.test(`POST ${PATH} on a model without image output says what it can do`, async () => {
  const cases: [TaskType[], string][] = [
    [["T2V"], "This pipeline does not support IMAGE output; supported task types: ['T2V']"],
    [
      ["I2I"],
      "Cannot do I2I: it needs an input image, and there is none; send 'image' or 'url' to /v1/images/edits",
    ],
  ];
  for (const [supportedTaskTypes, message] of cases) {
    const info = { supportedTaskTypes, taskType: supportedTaskTypes.at(-1)! };
    await using service = await testService({ engine: new FakeEngine({ info }) });
    const response = await service.post(PATH, { prompt: "a" });
    assert.equal(response.status, 400);
    assert.ok((await response.json()).detail.startsWith(message));
  }
});

Deno.test(`POST ${PATH} takes a task that may do without an image as one from text alone`, async () => {
  const info = { supportedTaskTypes: ["T2V", "TI2I", "T2I"], maxImages: 1 } as const;
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
    assert.equal(readImageText(Uint8Array.fromBase64(b64_json))["seed"], String(seed));
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

Deno.test(`POST ${PATH} takes the generic API's qualities as auto, and says so`, async () => {
  await using service = await testService();
  for (const quality of ["standard", "hd", "low", "medium"]) {
    const response = await service.post(PATH, { prompt: "a", quality });
    assert.equal(response.status, 200, await response.text());
    assert.equal(response.headers.get("x-ignored-fields"), "quality");
  }
  assert.ok(service.engine.requests.every(({ quality }) => quality === "lossless"));
});

Deno.test(`POST ${PATH} reads numbers and flags that come as text`, async () => {
  await using service = await testService();
  const response = await service.post(PATH, {
    prompt: "a",
    n: "2",
    seed: ["3", 9],
    width: "64.0",
    height: " 32 ",
    guidance_scale: "1e0",
    stream: "off",
    extra_body: { num_inference_steps: "2" },
    loras: [],
  });
  const body = await response.json();
  assert.equal(response.status, 200, JSON.stringify(body));
  assert.deepEqual(
    service.engine.requests.map(({ seed, width, height, guidanceScale, numInferenceSteps }) => [
      ...[seed, width, height],
      ...[guidanceScale, numInferenceSteps],
    ]),
    [[3, 64, 32, 1, 2], [9, 64, 32, 1, 2]],
  );
});

Deno.test(`POST ${PATH} writes the same PNG whatever the output quality, and names it`, async () => {
  await using service = await testService();
  const make = async (fields: Record<string, unknown>) => {
    const body = { prompt: "a", seed: 1, output_format: "png", size: "256x256", ...fields };
    const response = await service.post(PATH, body);
    const { data } = await response.json();
    return [response.headers.get("x-ignored-fields"), data[0].b64_json];
  };
  const [, plain] = await make({});
  assert.deepEqual(await make({ output_quality: "default" }), [null, plain]);
  assert.deepEqual(await make({ output_quality: "low" }), ["output_quality", plain]);
  assert.deepEqual(await make({ output_compression: 100 }), ["output_compression", plain]);
});

Deno.test(`POST ${PATH} knows output-quality and output-compression by their other spelling`, async () => {
  await using service = await testService();
  const make = async (fields: Record<string, unknown>) => {
    const response = await service.post(PATH, { prompt: "a", seed: 1, size: "256x256", ...fields });
    assert.equal(response.headers.get("x-ignored-fields"), null);
    return (await response.json()).data[0].b64_json;
  };
  const [low, least] = [
    await make({ output_quality: "low" }),
    await make({ output_compression: 0 }),
  ];
  assert.notEqual(low, least);
  assert.equal(await make({ "output-quality": "low" }), low);
  assert.equal(await make({ extra_body: { "output-compression": "0" } }), least);
});

Deno.test(`POST ${PATH} names what changes nothing this time`, async () => {
  await using service = await testService();
  const cases: [Record<string, unknown>, string | null][] = [
    [{ partial_images: 2 }, "partial_images"],
    [{ partial_images: 2, stream: true }, null],
    [{ partial_images: 0 }, null],
    [{ response_format: "url", stream: true }, "response_format"],
    [{ output_quality: "best" }, "output_quality"],
    [{ output_quality: "high", output_compression: 3 }, null],
    [{ negative_prompt: "blur", guidance_scale: 0 }, "negative_prompt"],
    [{ strength: 0.5 }, "strength"],
  ];
  for (const [fields, ignored] of cases) {
    const response = await service.post(PATH, { prompt: "a", ...fields });
    assert.equal(response.status, 200, await response.text());
    assert.equal(response.headers.get("x-ignored-fields"), ignored, JSON.stringify(fields));
  }
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
