/** LoRAs that requests name for themselves, and those that they were accepted with. */

import { strict as assert } from "node:assert";
import type { GenerateRequest } from "../../engine/types.ts";
import { encodePng } from "../../media/png.ts";
import { NOISE_SCHEDULES, SAMPLERS } from "../../models/schedulers/names.ts";
import { loraFile } from "../fakes/loras.ts";
import { recipeIn } from "../support/recipe_in.ts";
import { answer, withLoras } from "../fakes/lora_service.ts";
import { until } from "../fakes/service.ts";

const strengths = ({ loras = [] }: GenerateRequest) => loras.map(({ strength }) => strength);

Deno.test("loras of a request are its own: other requests and the server have theirs", () =>
  withLoras(async (service) => {
    const base = await service.image();
    await service.set("a");
    const [before, ofServer] = [await service.list(), await service.image()];
    const own = { path: "b.safetensors", strength: 0.5, target: "transformer" };
    const alone = await service.image([own]);
    assert.ok(alone !== base && alone !== ofServer);
    const asked = [[own], [], undefined, [{ nickname: "a" }], null, [own]];
    const images = await Promise.all(asked.map((loras) => service.image(loras)));
    assert.deepEqual([images[0], images[5]], [alone, alone]);
    assert.deepEqual([images[2], images[4]], [ofServer, ofServer]);
    assert.equal(images[1], base);
    assert.notEqual(images[3], base);
    assert.deepEqual(await service.list(), before);
  }));

Deno.test("loras of a request may be named in a word: a nickname or a file", () =>
  withLoras(async (service) => {
    const whole = await service.image([{ path: "b.safetensors" }]);
    assert.equal(await service.image(["b.safetensors"]), whole);
    const { data: [job] } = await (await service.get("/v1/jobs?limit=1")).json();
    assert.deepEqual(job.loras, ["b.safetensors"]);
    await service.set("mine", { lora_path: "b.safetensors" });
    await service.get("/v1/unmerge_lora_weights", { method: "POST" });
    assert.equal(await service.image(["mine"]), whole);
    const lora = await service.post("/v1/images/generations", {
      ...{ prompt: "a", seed: 42, output_format: "png", lora: "mine" },
    });
    assert.equal((await lora.json()).data[0].b64_json, whole);
  }));

Deno.test("a LoRA for few steps brings its settings, named by a request, in a prompt of sdapi, or set; requests override them", () => {
  const sampling = { samplers: SAMPLERS, schedulers: NOISE_SCHEDULES, maxSigma: 14.6 };
  const optionalSettings = ["sampler", "scheduler", "sigmas"] as const;
  return withLoras(async (service) => {
    const name = "Hyper-SD15-2steps-lora";
    await Deno.writeFile(`${service.adapters}/${name}.safetensors`, loraFile({ mark: 9 }));
    const path = `${name}.safetensors`;
    const shared = { prompt: "a", seed: 42, width: 64, height: 48 };
    const send = async (route: string, body: Record<string, unknown>) => {
      const response = await service.post(route, { ...shared, ...body });
      assert.equal(response.status, 200, await response.clone().text());
      const { sampler, scheduler, numInferenceSteps, guidanceScale } = service.engine.requests.at(
        -1,
      )!;
      return [sampler, scheduler, numInferenceSteps, guidanceScale];
    };
    const own = ["ddim", "sgm_uniform", 2, 1];
    const [images, txt2img] = ["/v1/images/generations", "/sdapi/v1/txt2img"];
    assert.deepEqual(await send(images, {}), [undefined, undefined, 4, 3.5]);
    assert.deepEqual(await send(images, { loras: [{ path }] }), own);
    assert.deepEqual(await send(txt2img, { prompt: `a <lora:${name}:1>` }), own);
    const said = { loras: [{ path }], num_inference_steps: 6, sampler: "euler", guidance_scale: 4 };
    assert.deepEqual(await send(images, said), ["euler", undefined, 6, 4]);
    const made = await service.post(txt2img, { ...shared, prompt: `a <lora:${name}:1>` });
    const { infotexts: [told] } = JSON.parse((await made.json()).info);
    assert.match(told, /Steps: 2, Sampler: DDIM.*CFG scale: 1/);
    await service.set("mine", { lora_path: path });
    assert.deepEqual(await send(images, {}), own);
    assert.deepEqual(await send(images, { loras: [] }), [undefined, undefined, 4, 3.5]);
    const { data: [card] } = await (await service.get("/v1/models")).json();
    const [, , hyper] = card.lora_defaults;
    assert.match(path, new RegExp(hyper.pattern, "i"));
    assert.deepEqual(hyper.defaults.sampler, "ddim");
  }, { info: { optionalSettings, sampling } });
});

Deno.test("loras of a request must be known, and say which", () =>
  withLoras(async (service) => {
    const cases: [loras: unknown, status: number, detail: RegExp][] = [
      [[{ nickname: "x" }], 400, /LoRA x not found in the pipeline. Please provide its path/],
      [[{ strength: 1 }], 400, /give its nickname or its path/],
      [[{ path: "x.safetensors" }], 400, /Cannot find LoRA 'x\.safetensors'/],
      [[{ path: "a.safetensors", target: "critic" }], 400, /this model has transformer, /],
      [[{ path: "a.safetensors", target: "x" }], 400, /Invalid target/],
      [new Array(17).fill({ path: "a.safetensors" }), 400, /at most 16/],
      [[{ path: "a.safetensors", stength: 1 }], 422, /stength/],
      ["a.safetensors", 422, /valid list/],
    ];
    for (const [loras, status, detail] of cases) {
      for (const path of ["/v1/images/generations", "/v1/videos"]) {
        const response = await service.post(path, { prompt: "a", loras });
        const error = await answer("Error", response, status);
        assert.match(JSON.stringify(error.detail), detail);
      }
    }
    assert.equal(service.engine.requests.length, 0);
  }));

Deno.test("a job keeps the LoRAs that were set when it was accepted", () =>
  withLoras(async (service) => {
    await service.set("a", { strength: 0.5 });
    const ids: string[] = [];
    for (const loras of [undefined, [{ nickname: "a", strength: 0.25 }]]) {
      const video = await answer("Video", await service.post("/v1/videos", { prompt: "a", loras }));
      ids.push(video.id);
    }
    await service.get("/v1/unmerge_lora_weights", { method: "POST" });
    await service.set("b");
    for (const id of ids) {
      await until(async () => (await service.store.get(id))?.status === "completed");
    }
    assert.deepEqual(service.engine.requests.map(strengths), [[0.5, 0.5], [0.25]]);
  }, { stepMs: 5 }));

Deno.test("an edit takes loras as JSON in its form", () =>
  withLoras(async (service) => {
    const form = new FormData();
    form.set("prompt", "a");
    form.set("image", new Blob([encodePng({ width: 16, height: 16, data: new Uint8Array(768) })]));
    form.set("loras", '[{"path":"a.safetensors","strength":2}]');
    const response = await service.get("/v1/images/edits", { method: "POST", body: form });
    assert.equal(response.status, 200, await response.text());
    assert.deepEqual(service.engine.requests.map(strengths), [[2]]);
  }, { info: { supportedTasks: ["T2I", "TI2I"] } }));

Deno.test("a PNG says which adapters it was made with, as a request names them", () =>
  withLoras(async (service) => {
    await service.set("a", { strength: 0.8, target: "transformer", lora_alpha: 3 });
    const recipe = async (loras?: unknown) => {
      return recipeIn(Uint8Array.fromBase64(await service.image(loras))).loras ?? null;
    };
    const own = { path: "a.safetensors", strength: 0.8, target: "transformer", alpha: 3 };
    assert.deepEqual(await recipe([own]), [own]);
    // What is set for all requests is merged, which rounds differently.
    const lora = { ...own, merge_mode: "merge" };
    assert.deepEqual(await recipe(), [lora]);
    assert.equal(await recipe([]), null);
    assert.equal(await service.image([lora]), await service.image());
  }));
