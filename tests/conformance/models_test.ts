/** Several models in one server: requests name them, and they come and go. */
import { strict as assert } from "node:assert";
import { encodeImage } from "../../media/encode.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { isErrorBody, testService, until } from "../fakes/service.ts";
import { recipeIn } from "../support/recipe_in.ts";

/** Three models: one for videos, two for images. */
function start() {
  const engine = new FakeEngine();
  const images = { defaultTask: "T2I", supportedTasks: ["T2I", "TI2I"] } as const;
  const others = {
    "org/painter": new FakeEngine({ info: { ...images, maxSteps: 3 } }),
    other: new FakeEngine({ info: images }),
  };
  others.other.isLoaded = false;
  return { engine, others };
}

Deno.test("GET /v1/models lists all models, with tasks and state", async () => {
  await using service = await testService(start());
  const { data } = await (await service.get("/v1/models")).json();
  const told = data.map((
    card: Record<string, unknown>,
  ) => [card["id"], card["state"], card["task_type"]]);
  assert.deepEqual(told, [
    ["gradients", "loaded", "T2V"],
    ["org/painter", "loaded", "T2I"],
    ["other", "unloaded", "T2I"],
  ]);
  const card = await (await service.get("/v1/models/org/painter")).json();
  assert.deepEqual(card.supported_task_types, ["T2I", "TI2I"]);
  assert.equal((await service.get("/v1/models/none")).status, 404);
});

Deno.test("POST /v1/models/{id}/load and /unload change where a model is", async () => {
  const models = start();
  await using service = await testService(models);
  const change = async (path: string) => {
    const response = await service.post(`/v1/models/${path}`, {});
    return [response.status, (await response.json()).state];
  };
  assert.deepEqual(await change("other/load"), [200, "loaded"]);
  assert.deepEqual(await change("org/painter/unload"), [200, "unloaded"]);
  assert.deepEqual([models.others.other.isLoaded, models.others["org/painter"].isLoaded], [
    true,
    false,
  ]);
  assert.deepEqual(await change("none/load"), [404, undefined]);
  assert.equal((await service.get("/v1/models/other/load")).status, 405);
});

Deno.test("a request's model picks among several, for images, edits, videos and WebUI's routes", async () => {
  const models = start();
  await using service = await testService(models);
  const { engine, others } = models;
  const painter = others["org/painter"];
  const counts = () => [engine, painter, others.other].map(({ requests }) => requests.length);
  const made = await service.post("/v1/images/generations", {
    ...{ prompt: "a", model: "org/painter", output_format: "png", num_inference_steps: 3 },
  });
  assert.equal(made.headers.get("x-ignored-fields"), null);
  const image = await made.json();
  const { data } = image;
  assert.equal(recipeIn(Uint8Array.fromBase64(data[0].b64_json)).model, "org/painter");
  assert.deepEqual(counts(), [0, 1, 0]);
  const { request } = await (await service.get(`/v1/jobs/${image.id}`)).json();
  assert.equal(request.model, "org/painter", "sent again, it goes to the same model");
  // What one model takes, another may not.
  const limited = await service.post("/v1/images/generations", {
    ...{ prompt: "a", model: "org/painter", num_inference_steps: 4 },
  });
  assert.match((await limited.json()).error.message, /must be at most 3, got 4/);
  const size = { width: 32, height: 32 };
  const png = await encodeImage({ ...size, data: new Uint8Array(32 * 32 * 3) }, { format: "png" });
  const form = new FormData();
  form.set("image", new Blob([png.bytes]));
  form.set("prompt", "a");
  form.set("model", "other");
  const edited = await service.get("/v1/images/edits", { method: "POST", body: form });
  assert.equal(edited.status, 200, await edited.text());
  assert.deepEqual(counts(), [0, 1, 1]);
  const { id } = await (await service.post("/v1/videos", { prompt: "a", model: "" })).json();
  await until(async () => (await service.store.get(id))?.status === "completed");
  assert.deepEqual(counts(), [1, 1, 1]);
  const refused = await service.post("/v1/videos", { prompt: "a", model: "other" });
  assert.match((await refused.json()).error.message, /does not support VIDEO output/);
  await service.post("/sdapi/v1/options", { sd_model_checkpoint: "other" });
  const list = await (await service.get("/sdapi/v1/sd-models")).json();
  assert.equal(list.length, 3);
  const sent = { prompt: "a", steps: 2 };
  await (await service.post("/sdapi/v1/txt2img", sent)).body?.cancel();
  const override_settings = { sd_model_checkpoint: "org/painter" };
  await (await service.post("/sdapi/v1/txt2img", { ...sent, override_settings })).body?.cancel();
  await until(() => counts().join() === "1,2,2");
});

Deno.test("a model whose files are gone says so and is not listed, until they are back", async () => {
  const models = start();
  await using service = await testService(models);
  const names = async () => {
    const { data } = await (await service.get("/v1/models")).json();
    return data.map(({ id }: { id: string }) => id);
  };
  models.others.other.isGone = true;
  assert.deepEqual(await names(), ["gradients", "org/painter"]);
  const draw = () => service.post("/v1/images/generations", { prompt: "a", model: "other" });
  const gone = await draw();
  const body = await gone.json();
  assert.ok(isErrorBody(body));
  assert.deepEqual([gone.status, body.error.code], [503, "model_failed"]);
  assert.match(body.error.message, /^Cannot load the model: its files are gone, .*; put them back/);
  assert.ok(service.lines.some((line) => line.includes("Cannot open the fake: it does not exist")));
  const { data: [job] } = await (await service.get("/v1/jobs")).json();
  assert.deepEqual([job.status, job.error.code], ["failed", "model_failed"]);
  models.others.other.isGone = false;
  assert.equal((await draw()).status, 200);
  assert.deepEqual(await names(), ["gradients", "org/painter", "other"]);
});

Deno.test("a model that is not served is a 404, and one model takes the names of OpenAI's", async () => {
  await using service = await testService(start());
  for (const path of ["images/generations", "videos"]) {
    const response = await service.post(`/v1/${path}`, { prompt: "a", model: "dall-e-3" });
    const body = await response.json();
    assert.equal(response.status, 404);
    assert.ok(isErrorBody(body));
    assert.equal(body.error.code, "model_not_found");
    assert.match(body.error.message, /this server has 'gradients', 'org\/painter', 'other'/);
  }
  await using single = await testService();
  const statusOf = async (model: string) =>
    (await single.post("/v1/images/generations", { prompt: "a", model })).status;
  for (
    const model of ["dall-e-3", "gpt-image-1", "chatgpt-image-latest", "openai/gpt-image-1", ""]
  ) {
    assert.equal(await statusOf(model), 200, model);
  }
  for (const model of ["z-image-turbo", "flux", "gpt-4o", "my-dall-e-3"]) {
    assert.equal(await statusOf(model), 404, model);
  }
});
