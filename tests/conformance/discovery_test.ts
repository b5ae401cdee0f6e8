import { strict as assert } from "node:assert";
import { createApp } from "../../server/app.ts";
import { EngineState } from "../../server/served_models.ts";
import manifest from "../../deno.json" with { type: "json" };
import type { ModelInfo } from "../../engine/types.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { isErrorBody, testService } from "../fakes/service.ts";

Deno.test("GET /v1/models lists one card with every field of the contract", async () => {
  await using service = await testService();
  const response = await service.get("/v1/models");
  assert.equal(response.status, 200);
  const { object, data } = await response.json();
  assert.equal(object, "list");
  const now = Math.floor(Date.now() / 1000);
  assert.ok(Math.abs(data[0].created - now) <= 2);
  assert.deepEqual(data, [{
    id: "gradients",
    object: "model",
    created: data[0].created,
    owned_by: "denoise",
    root: "gradients",
    parent: null,
    max_model_len: null,
    num_gpus: 1,
    state: "loaded",
    task_type: "T2V",
    supported_task_types: ["T2V", "T2I"],
    native_sides: null,
    inpainting: null,
    takes_control: false,
    controls_inpainting: false,
    max_controls: 1,
    ip_adapters: [],
    control_nets: [],
    parts: { control_nets: [], ip_adapters: [], max_control_nets: 0, max_ip_adapters: 0 },
    dit_precision: "fp16",
    vae_precision: "fp32",
    pipeline_name: "Gradient",
    pipeline_class: "GradientPipeline",
    sizes: ["64x48", "48x48", "48x64", "80x48", "48x80"],
    defaults: { size: "64x48", num_frames: 9, fps: 8 },
    limits: {
      size_multiple: 16,
      max_pixels: 65536,
      size_is_budget: false,
      frame_multiple: 4,
      max_frames: 81,
      min_images: 1,
      max_images: 1,
      max_edit_images: 1,
      max_references: 0,
      takes_video_masks: false,
    },
    gives_audio: false,
    takes_audio: false,
    settings: data[0].settings,
    takes_loras: true,
    lora_defaults: [],
    loras: [],
    can_enhance: false,
  }]);
});

Deno.test("GET /v1/models offers the settings that mean something to the model, by task", async () => {
  const names = async (info: Partial<ModelInfo>) => {
    await using service = await testService({ engine: new FakeEngine({ info }) });
    const { settings } = await (await service.get("/v1/models/gradients")).json();
    return Object.fromEntries(
      settings.map((row: { name: string }) => [row.name, row]),
    ) as Record<string, { [key: string]: unknown }>;
  };
  const plain = await names({});
  assert.deepEqual(Object.keys(plain), [
    "negative_prompt",
    "num_inference_steps",
    "guidance_scale",
    "quality",
  ]);
  assert.deepEqual(plain["num_inference_steps"], {
    name: "num_inference_steps",
    description: "Number of denoising steps",
    type: "integer",
    minimum: 1,
    maximum: 50,
    defaults: { T2V: 4, T2I: 4 },
  });
  const rich = await names({
    supportedTasks: ["T2V", "V2V", "T2I"],
    optionalSettings: ["sampler", "flowShift"],
    optionalParts: ["upscaler", "frameInterpolator"],
  });
  assert.ok((rich["sampler"]!["choices"] as string[]).includes("heun"));
  assert.deepEqual(Object.keys(rich["strength"]!["defaults"] as object), ["V2V"]);
  assert.deepEqual(rich["upscaling_scale"]!["defaults"], { T2V: 4, V2V: 4, T2I: 4 });
  assert.deepEqual(Object.keys(rich["frame_interpolation_exp"]!["defaults"] as object), [
    "T2V",
    "V2V",
  ]);
});

Deno.test("GET /v1/models/{id} finds names with slashes, encoded or not, and no others", async () => {
  await using service = await testService({ settings: { servedModelName: "org/name v1" } });
  for (const path of ["/v1/models/org/name%20v1", "/v1/models/org%2Fname%20v1"]) {
    const response = await service.get(path);
    assert.equal(response.status, 200, path);
    assert.equal((await response.json()).id, "org/name v1");
  }
  const response = await service.get("/v1/models/other");
  assert.equal(response.status, 404);
  assert.deepEqual((await response.json()).error, {
    message: "The model 'other' does not exist",
    type: "invalid_request_error",
    param: "model",
    code: "model_not_found",
  });
});

Deno.test("GET /models gives the older flat record", async () => {
  await using service = await testService();
  assert.deepEqual(await (await service.get("/models")).json(), {
    model_path: "fake/gradients",
    num_gpus: 1,
    task_type: "T2V",
    supported_task_types: ["T2V", "T2I"],
    dit_precision: "fp16",
    vae_precision: "fp32",
    vae_decode_precision: null,
    pipeline_name: "Gradient",
    pipeline_class: "GradientPipeline",
  });
});

Deno.test("GET /model_info, /v1/model_info and /server_info give the fields of the contract", async () => {
  await using service = await testService();
  assert.deepEqual(await (await service.get("/model_info")).json(), {
    model_path: "fake/gradients",
    is_generation: true,
    model_type: "diffusion",
    architectures: ["GradientPipeline"],
    has_image_understanding: false,
    has_audio_understanding: false,
    task_type: "T2V",
    supported_task_types: ["T2V", "T2I"],
    output_types: ["IMAGE", "VIDEO"],
    is_image_gen: false,
    video_encoder: "ffmpeg 5.1.4 in WebAssembly, bundled",
  });
  assert.deepEqual(await (await service.get("/v1/model_info")).json(), {
    model_path: "fake/gradients",
  });
  assert.deepEqual(await (await service.get("/server_info")).json(), {
    model_path: "fake/gradients",
    served_model_name: "gradients",
    tp_size: null,
    dp_size: 1,
    version: manifest.version,
  });
});

Deno.test("GET /health is 503 with progress until the model is loaded, /liveness is 200 at once", async () => {
  const loading = Promise.withResolvers<FakeEngine>();
  const state = new EngineState(loading.promise);
  state.note(0.25);
  const app = createApp({ engine: state });
  assert.deepEqual(await (await app.request("/liveness")).json(), { status: "ok" });
  for (const path of ["/health", "/health_generate"]) {
    const response = await app.request(path);
    assert.equal(response.status, 503);
    const body = await response.json();
    assert.equal(body.status, "loading");
    assert.equal(body.progress, 0.25);
    assert.ok(isErrorBody(body));
  }
  for (const path of ["/v1/models", "/model_info"]) {
    const response = await app.request(path);
    assert.equal(response.status, 503);
    assert.ok(Number(response.headers.get("retry-after")) > 0);
    assert.ok(isErrorBody(await response.json()));
  }
  assert.equal((await app.request("/server_info")).status, 200);

  loading.resolve(new FakeEngine());
  await state.settled;
  for (const path of ["/health", "/health_generate"]) {
    assert.deepEqual(await (await app.request(path)).json(), { status: "ok" });
  }
});

Deno.test("GET /health stays 503 when the model could not be loaded", async () => {
  const state = new EngineState(Promise.reject(new Error("Cannot open: disk on fire")));
  await state.settled;
  const app = createApp({ engine: state });
  const response = await app.request("/health");
  assert.equal(response.status, 503);
  const text = await response.text();
  assert.equal(JSON.parse(text).status, "failed");
  assert.ok(!text.includes("disk on fire"), "clients are not told of our disks");
});

Deno.test("HEAD answers as GET without a body", async () => {
  await using service = await testService();
  for (const path of ["/liveness", "/v1/models", "/server_info"]) {
    const response = await service.get(path, { method: "HEAD" });
    assert.equal(response.status, 200, path);
    assert.equal(await response.text(), "");
  }
});
