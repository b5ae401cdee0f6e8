/** Fields of requests for images: their spellings, and which of them have no effect. */
import { strict as assert } from "node:assert";
import { chooseWords } from "../../generation/wildcards.ts";
import { testService, until } from "../fakes/service.ts";

const PATH = "/v1/images/generations";

Deno.test(`POST ${PATH} passes every tier of quality on, the old name of one too`, async () => {
  await using service = await testService();
  const tiers = ["auto", "exact", "lossless", "high", "extra-high", null];
  for (const quality of tiers) await service.post(PATH, { prompt: "a", quality });
  assert.deepEqual(
    service.engine.requests.map(({ quality }) => quality),
    ["lossless", "exact", "lossless", "high", "lossless", "lossless"],
  );
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
    [{ output_quality: "low", output_format: "png" }, "output_quality"],
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

Deno.test(`POST ${PATH} with wildcards draws for each seed what it chooses, says so, and is repeated`, async () => {
  const enhancer = { enhance: (prompt: string) => Promise.resolve(prompt) };
  await using service = await testService({ enhancer });
  const prompt = "a {red|green|blue} {fox|hen}";
  const wanted = [5, 6, 7].map((seed) => chooseWords(prompt, seed));
  assert.ok(new Set(wanted).size > 1);
  const drawn = () => service.engine.requests.splice(0).map(({ prompt }) => prompt);
  const body = { prompt, seed: 5, n: 3, wildcards: true };
  const { data } = await (await service.post(PATH, body)).json();
  assert.deepEqual(drawn(), wanted);
  const revised = data.map(({ revised_prompt }: Record<string, string>) => revised_prompt);
  assert.deepEqual(revised, wanted);

  await (await service.post(PATH, { prompt })).body?.cancel();
  assert.deepEqual(drawn(), [prompt], "braces are text by default");

  const init = { headers: { prefer: "respond-async" } };
  const { id } = await (await service.post(PATH, body, init)).json();
  await until(async () => (await service.store.get(id))!.status === "completed");
  const { request, outputs } = await (await service.get(`/v1/jobs/${id}`)).json();
  assert.deepEqual([request.prompt, request.wildcards], [prompt, true]);
  assert.deepEqual(outputs.map(({ prompt }: Record<string, string>) => prompt), wanted);
  await (await service.post(PATH, request)).body?.cancel();
  assert.deepEqual(drawn(), [...wanted, ...wanted]);

  const refused = await service.post(PATH, { ...body, enhance_prompt: true });
  const { error } = await refused.json();
  assert.deepEqual([refused.status, error.param], [400, "wildcards"]);
});
