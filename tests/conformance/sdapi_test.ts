/** The routes of Stable Diffusion WebUI, as Open WebUI, SillyTavern and scripts call them. */
import { strict as assert } from "node:assert";
import type { Image, ModelInfo } from "../../engine/types.ts";
import { decodeImage } from "../../media/decode.ts";
import { encodeImage, readImageText } from "../../media/encode.ts";
import type { PixelImage } from "../../media/image.ts";
import { loraFile } from "../fakes/loras.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { type TestService, testService, until } from "../fakes/service.ts";

const INFO: Partial<ModelInfo> = {
  ...{ defaultTask: "T2I", supportedTasks: ["T2I", "TI2I"], inpainting: { strength: 0.8 } },
  ...{ taskDefaults: { TI2I: { strength: 0.6 } }, optionalSettings: ["sampler", "scheduler"] },
};

const start = (settings = {}, options = {}) =>
  testService({ engine: new FakeEngine({ info: INFO, ...options }), settings });

/** What Open WebUI sends with its engine "automatic1111", commit 02530d5 of its repository. */
function openWebui(service: TestService) {
  const headers = { authorization: `Basic ${btoa("user:secret")}` };
  const get = async (path: string) => {
    const response = await service.get(`/sdapi/v1/${path}`, { headers });
    assert.equal(response.status, 200, path);
    return await response.json();
  };
  const post = (path: string, body: unknown) =>
    service.post(`/sdapi/v1/${path}`, body, { headers });
  return { get, post };
}

/** Fields that SillyTavern sends with every picture. */
const SILLY_TAVERN = {
  ...{ url: "http://127.0.0.1:30000", auth: "", prompt: "a fox", negative_prompt: "dark" },
  ...{ sampler_name: "Euler a", scheduler: "Karras", steps: 6, cfg_scale: 2.5 },
  ...{ width: 64, height: 60, restore_faces: false, enable_hr: false, hr_upscaler: "Latent" },
  ...{ hr_scale: 1, denoising_strength: 0.7, hr_second_pass_steps: 0 },
  ...{
    override_settings: { CLIP_stop_at_last_layers: 1 },
    override_settings_restore_afterwards: true,
  },
  ...{ clip_skip: 1, save_images: true, send_images: true, do_not_save_grid: false },
  do_not_save_samples: false,
};

Deno.test("sdapi serves Open WebUI: options, models, and images in base64", async () => {
  await using service = await start({ apiKeys: ["secret"] });
  const client = openWebui(service);
  const options = await client.get("options");
  const models = await client.get("sd-models");
  assert.equal(options.sd_model_checkpoint, "gradients");
  assert.deepEqual(models.map(({ title }: { title: string }) => title), ["gradients"]);
  assert.equal((await client.post("options", options)).status, 200);
  const sent = { prompt: "a red fox", batch_size: 2, width: 64, height: 48, steps: 5 };
  const response = await client.post("txt2img", { ...sent, negative_prompt: "dark" });
  assert.equal(response.status, 200, await response.clone().text());
  const { images, info, parameters } = await response.json();
  assert.equal(images.length, 2);
  const { width, height } = await decodeImage(Uint8Array.fromBase64(images[0]));
  assert.deepEqual([width, height], [64, 48]);
  assert.equal(parameters.prompt, "a red fox");
  const { all_seeds, steps, infotexts } = JSON.parse(info);
  assert.deepEqual([all_seeds.length, steps], [2, 5]);
  const text = readImageText(Uint8Array.fromBase64(images[1]));
  assert.equal(text["parameters"], infotexts[1]);
  assert.equal(text["prompt"], undefined);
  const refused = await service.get("/sdapi/v1/options", { headers: { authorization: "Basic " } });
  assert.equal(refused.status, 401);
  const [job] = (await (await service.get("/v1/jobs", {
    headers: { authorization: "Bearer secret" },
  })).json()).data;
  assert.equal(job.prompt, "a red fox");
});

Deno.test("sdapi serves SillyTavern: its lists, its fields, and a text that png-info reads", async () => {
  await using service = await start();
  for (const path of ["upscalers", "latent-upscale-modes", "sd-vae", "samplers", "schedulers"]) {
    const list = await (await service.get(`/sdapi/v1/${path}`)).json();
    assert.ok(Array.isArray(list), path);
  }
  const names = await (await service.get("/sdapi/v1/samplers")).json();
  assert.deepEqual(names.slice(0, 3).map(({ name }: { name: string }) => name), [
    ...["Default", "Euler", "Euler a"],
  ]);
  const response = await service.post("/sdapi/v1/txt2img", SILLY_TAVERN);
  assert.equal(response.status, 200, await response.clone().text());
  assert.equal(response.headers.get("x-ignored-fields"), null);
  assert.equal(response.headers.get("x-rounded-fields"), "height=64");
  const override_settings = { CLIP_stop_at_last_layers: 2, sd_model_checkpoint: "gradients" };
  const other = await service.post("/sdapi/v1/txt2img", { prompt: "a", override_settings });
  assert.equal(
    other.headers.get("x-ignored-fields"),
    "override_settings.CLIP_stop_at_last_layers",
  );
  const [request] = service.engine.requests;
  assert.deepEqual(
    [request!.sampler, request!.scheduler, request!.numInferenceSteps, request!.guidanceScale],
    ["euler_ancestral", "karras", 6, 2.5],
  );
  assert.deepEqual([request!.width, request!.height, request!.negativePrompt], [64, 64, "dark"]);
  const { images: [image] } = await response.json();
  const read = await service.post("/sdapi/v1/png-info", {
    image: `data:image/png;base64,${image}`,
  });
  const { info, parameters, items, recipe, unused } = await read.json();
  assert.match(
    info,
    /^a fox\nNegative prompt: dark\nSteps: 6, Sampler: Euler a, Schedule type: Karras, /,
  );
  assert.deepEqual(
    [parameters.Prompt, parameters["Negative prompt"], parameters["CFG scale"], parameters.Size],
    ["a fox", "dark", "2.5", "64x64"],
  );
  assert.equal(JSON.parse(items.denoise).model, "gradients");
  assert.deepEqual([recipe.sampler, recipe.model, unused], ["euler_ancestral", "gradients", []]);
});

Deno.test("sdapi reads weights in prompts as WebUI does, where the model takes any", async () => {
  const optionalSettings = ["promptSyntax"] as const;
  await using weighted = await start({}, { info: { ...INFO, optionalSettings } });
  await using plain = await start();
  for (const [service, syntax] of [[weighted, "a1111"], [plain, undefined]] as const) {
    const response = await service.post("/sdapi/v1/txt2img", { prompt: "a (red:1.2) fox" });
    assert.equal(response.status, 200, await response.clone().text());
    assert.equal(service.engine.requests[0]!.promptSyntax, syntax);
  }
});

Deno.test("sdapi skips layers of CLIP as WebUI counts them", async () => {
  const optionalSettings = ["clipSkip"] as const;
  for (
    const [className, skipped] of [["StableDiffusionPipeline", 1], [
      "StableDiffusionXLPipeline",
      0,
    ]] as const
  ) {
    await using service = await start({}, { info: { ...INFO, className, optionalSettings } });
    const override_settings = { CLIP_stop_at_last_layers: 2 };
    const response = await service.post("/sdapi/v1/txt2img", {
      prompt: "a fox",
      override_settings,
    });
    assert.equal(response.status, 200, await response.clone().text());
    assert.equal(response.headers.get("x-ignored-fields"), null);
    assert.equal(service.engine.requests[0]!.clipSkip ?? 0, skipped);
    assert.equal(JSON.parse((await response.json()).info).clip_skip, skipped + 1);
    for (const layer of [-1, 1.5, 13]) {
      const override_settings = { CLIP_stop_at_last_layers: layer };
      const refused = await service.post("/sdapi/v1/txt2img", {
        prompt: "a fox",
        override_settings,
      });
      assert.equal(refused.status, 400);
      const { detail } = await refused.json();
      assert.equal(
        detail,
        `CLIP_stop_at_last_layers must be an integer from 1 to 12, got ${layer}`,
      );
    }
  }
});

Deno.test("sdapi lets a refiner take over where a request names one", async () => {
  const optionalSettings = ["refinerStart"] as const;
  await using service = await start({}, { info: { ...INFO, optionalSettings } });
  await using plain = await start();
  const named = { refiner_checkpoint: "refiner.safetensors", refiner_switch_at: 0.7 };
  const cases = [[service, named, 0.7, null], [service, {}, 1, null], [
    plain,
    named,
    undefined,
    "refiner_checkpoint",
  ]] as const;
  for (const [server, given, share, ignored] of cases) {
    const response = await server.post("/sdapi/v1/txt2img", { prompt: "a fox", ...given });
    assert.equal(response.status, 200, await response.clone().text());
    assert.equal(response.headers.get("x-ignored-fields"), ignored);
    assert.equal(server.engine.requests.at(-1)!.refinerStart, share);
  }
});

Deno.test("sdapi/embeddings lists those of the model, and those for other models apart", async () => {
  const embeddings = [
    { name: "style", vectors: 2, width: 768, isUsable: true },
    { name: "other", vectors: 1, width: 1024, isUsable: false },
  ];
  await using service = await start({}, { info: { ...INFO, embeddings } });
  const { loaded, skipped } = await (await service.get("/sdapi/v1/embeddings")).json();
  assert.deepEqual([loaded.style.vectors, loaded.style.shape], [2, 768]);
  assert.deepEqual(Object.keys(skipped), ["other"]);
});

Deno.test("sdapi/img2img starts from an image, and paints what its mask says in WebUI's ways", async () => {
  await using service = await start();
  const [width, height] = [64, 48];
  const half = new Uint8Array(width * height * 4);
  for (let i = 0; i < width * height; i++) half.fill(i % width < 32 ? 0 : 255, 4 * i, 4 * i + 4);
  const png = async (data: Uint8Array, channels: 3 | 4) =>
    (await encodeImage({ width, height, channels, data } as Image, { format: "png" })).bytes
      .toBase64();
  const opaque = half.map((value, i) => (i % 4 === 3 ? 255 : value));
  const image = await png(new Uint8Array(width * height * 3).fill(90), 3);
  const body = { init_images: [image], prompt: "a", denoising_strength: 0.5, width, height };
  const cases: [Record<string, unknown>, painted: [number, number] | undefined][] = [
    [{}, undefined],
    [{ mask: await png(opaque, 4) }, [0, 255]],
    [{ mask: await png(half, 4), mask_blur: 7, inpainting_fill: 1 }, [0, 255]],
    [{ mask: await png(opaque, 4), inpainting_mask_invert: 1 }, [255, 0]],
  ];
  for (const [change, painted] of cases) {
    const response = await service.post("/sdapi/v1/img2img", { ...body, ...change });
    assert.equal(response.status, 200, await response.clone().text());
    assert.equal(response.headers.get("x-ignored-fields"), null);
    const { parameters } = await response.json();
    assert.deepEqual([parameters.init_images, parameters.mask], [undefined, undefined]);
    const { mask, strength, maskBlur } = service.engine.requests.at(-1)!;
    assert.equal(maskBlur, painted && (change["mask_blur"] ?? 4));
    assert.equal(strength, 0.5);
    assert.deepEqual(mask && [mask[0]!.data[0], mask[0]!.data[3 * 63]], painted);
  }
});

Deno.test("sdapi takes LoRAs from the prompt, and lists those that it knows", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeFile(`${folder}/outline.safetensors`, loraFile({ mark: 1 }));
    await using service = await start({ loraFolders: [folder] });
    const list = await (await service.get("/sdapi/v1/loras")).json();
    assert.deepEqual(list.map(({ name }: { name: string }) => name), ["outline"]);
    const sent = { prompt: "a fox <lora:outline:0.7> at night" };
    const response = await service.post("/sdapi/v1/txt2img", sent);
    assert.equal(response.status, 200, await response.clone().text());
    const [{ prompt, loras }] = service.engine.requests as [typeof service.engine.requests[0]];
    assert.equal(prompt, "a fox at night");
    assert.deepEqual(loras!.map(({ strength }) => strength), [0.7]);
    const { info } = await response.json();
    assert.match(JSON.parse(info).infotexts[0], /^a fox at night <lora:outline:0\.7>\nSteps/);
    const unknown = await service.post("/sdapi/v1/txt2img", { prompt: "a <lora:none:1>" });
    assert.equal(unknown.status, 400);
    assert.match((await unknown.json()).detail, /Cannot find LoRA 'none'/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("sdapi tells progress, and gives whoever interrupts what is finished", async () => {
  await using service = await start({}, { stepMs: 20 });
  const idle = await (await service.get("/sdapi/v1/progress")).json();
  assert.deepEqual([idle.progress, idle.state.job_count, idle.current_image], [0, 0, null]);
  const making = service.post("/sdapi/v1/txt2img", { prompt: "a", n_iter: 3, steps: 20 });
  const state = async () =>
    await (await service.get("/sdapi/v1/progress?skip_current_image=true")).json();
  await until(async () => {
    const { progress, state: { job_no } } = await state();
    return job_no >= 1 && progress >= 0.3;
  });
  const { progress, state: { job_count, sampling_steps } } = await state();
  assert.ok(progress >= 0.3 && progress < 1, String(progress));
  assert.deepEqual([job_count, sampling_steps], [3, 20]);
  const answer = await service.post("/sdapi/v1/interrupt", {});
  assert.deepEqual([answer.status, await answer.json()], [200, {}]);
  const response = await making;
  assert.equal(response.status, 200);
  assert.ok((await response.json()).images.length < 3);
});

Deno.test("sdapi refuses in WebUI's shape, names what changes nothing, and can be off", async () => {
  await using service = await start();
  const cases: [path: string, body: unknown, status: number, detail: RegExp][] = [
    ["txt2img", { prompt: " " }, 400, /prompt is empty/],
    [
      "txt2img",
      { prompt: "a", batch_size: 4, n_iter: 4 },
      400,
      /Cannot make 16 images: batch_size times n_iter must be between 1 and 10/,
    ],
    ["txt2img", { prompt: "a", steps: "many" }, 422, /Input should be a valid integer/],
    ["img2img", { prompt: "a" }, 400, /Init image not found/],
    ["img2img", { prompt: "a", init_images: ["***"] }, 400, /its base64 is not valid/],
    ["img2img", { prompt: "a", init_images: ["AAAA"] }, 400, /of no known format/],
    ["options", { sd_model_checkpoint: "other" }, 400, /this server has 'gradients'/],
    ["png-info", { image: "AAAA" }, 400, /of no known format/],
  ];
  for (const [path, sent, status, detail] of cases) {
    const response = await service.post(`/sdapi/v1/${path}`, sent);
    const body = await response.json();
    assert.equal(response.status, status, JSON.stringify(body));
    assert.equal(body.error, "HTTPException");
    assert.match(JSON.stringify(body.detail), detail);
  }
  const odd = { prompt: "a", sampler_name: "PLMS", alwayson_scripts: { a: {} } };
  const named = await service.post("/sdapi/v1/txt2img", odd);
  assert.equal(named.headers.get("x-ignored-fields"), "sampler_name, alwayson_scripts");
  await named.body?.cancel();
  await using strict = await start({ strictFields: true });
  const refused = await strict.post("/sdapi/v1/txt2img", odd);
  assert.equal(refused.status, 400);
  await using off = await start({ enableSdapi: false });
  const gone = await off.get("/sdapi/v1/options");
  assert.equal(gone.status, 404);
});

Deno.test("sdapi resolves styles of a styles.csv, and refuses others", async () => {
  const path = await Deno.makeTempFile({ suffix: ".csv" });
  await Deno.writeTextFile(
    path,
    'name,prompt,negative_prompt\nink,"{prompt}, ink",photo\nold,old,\n',
  );
  await using service = await start({ styles: path });
  const listed = await (await service.get("/sdapi/v1/prompt-styles")).json();
  assert.deepEqual(listed[0], { name: "ink", prompt: "{prompt}, ink", negative_prompt: "photo" });
  const sent = { prompt: "a fox", negative_prompt: "dark", styles: ["ink", "old"] };
  const response = await service.post("/sdapi/v1/txt2img", sent);
  assert.equal(response.status, 200, await response.clone().text());
  const [request] = service.engine.requests;
  assert.deepEqual([request!.prompt, request!.negativePrompt], [
    "a fox, ink, old",
    "dark, photo",
  ]);
  const unknown = await service.post("/sdapi/v1/txt2img", { prompt: "a", styles: ["oil"] });
  assert.equal(unknown.status, 400);
  assert.match(
    (await unknown.json()).detail,
    /Cannot use the style 'oil': this server has 'ink', /,
  );
  await Deno.remove(path);
});

Deno.test("paths below /sdapi that are not there are answered in WebUI's shape", async () => {
  await using service = await start();
  for (const [path, status] of [["interrogate", 404], ["samplers", 405]] as const) {
    const response = await service.post(`/sdapi/v1/${path}`, {});
    const body = await response.json();
    assert.equal(response.status, status);
    assert.deepEqual([body.error, typeof body.errors], ["HTTPException", "string"]);
  }
  assert.deepEqual(await (await service.get("/sdapi/v1/realesrgan-models")).json(), []);
  for (const path of ["unload-checkpoint", "reload-checkpoint"]) {
    assert.deepEqual(await (await service.post(`/sdapi/v1/${path}`, {})).json(), {});
  }
});

/** A PNG in base64 whose left half is red, and seen through by half. */
async function halves(width: number, height: number): Promise<string> {
  const data = new Uint8Array(width * height * 4);
  for (let i = 0; i < width * height; i++) {
    data.set(i % width < width / 2 ? [255, 0, 0, 128] : [0, 0, 255, 255], 4 * i);
  }
  const image: PixelImage = { width, height, channels: 4, data };
  return (await encodeImage(image, { format: "png" })).bytes.toBase64();
}

Deno.test("sdapi/extra-single-image resizes by a factor or to a frame, and keeps transparency", async () => {
  await using service = await start();
  const image = await halves(60, 40);
  const cases: [Record<string, unknown>, size: [number, number]][] = [
    [{}, [120, 80]],
    [{ upscaling_resize: 1.5, image: `data:image/png;base64,${image}` }, [90, 60]],
    [{ upscaling_resize: "4", upscaler_1: "None" }, [240, 160]],
    [{ resize_mode: 1, upscaling_resize_w: 100, upscaling_resize_h: 100 }, [100, 100]],
    [{ resize_mode: 1, upscaling_resize_w: 30, upscaling_resize_h: 10 }, [30, 10]],
    [
      {
        ...{ resize_mode: 1, upscaling_resize_w: 100, upscaling_resize_h: 100 },
        upscaling_crop: false,
      },
      [150, 100],
    ],
    // Clients send all fields, with values that ask for nothing.
    [
      {
        ...{ show_extras_results: true, gfpgan_visibility: 0, codeformer_visibility: 0 },
        ...{ codeformer_weight: 0.5, upscale_first: false, upscaler_2: "None" },
        extras_upscaler_2_visibility: 0,
      },
      [120, 80],
    ],
  ];
  for (const [fields, size] of cases) {
    const response = await service.post("/sdapi/v1/extra-single-image", { image, ...fields });
    assert.equal(response.status, 200, await response.clone().text());
    assert.equal(response.headers.get("x-ignored-fields"), null);
    const { html_info, image: made } = await response.json();
    assert.equal(html_info, "");
    const { width, height, data, channels } = await decodeImage(Uint8Array.fromBase64(made));
    assert.deepEqual([width, height, channels], [...size, 4]);
    assert.deepEqual([...data.subarray(0, 4)], [255, 0, 0, 128]);
  }
});

Deno.test("sdapi/extra-batch-images resizes each image, in order", async () => {
  await using service = await start();
  const imageList = await Promise.all([[8, 6], [5, 9]].map(async ([width, height], i) => ({
    data: await halves(width!, height!),
    name: `${i}.png`,
  })));
  const send = (body: unknown) => service.post("/sdapi/v1/extra-batch-images", body);
  const response = await send({ imageList, upscaling_resize: 3 });
  assert.equal(response.status, 200, await response.clone().text());
  const { images } = await response.json();
  const sizes = await Promise.all(images.map(async (image: string) => {
    const { width, height } = await decodeImage(Uint8Array.fromBase64(image));
    return [width, height];
  }));
  assert.deepEqual(sizes, [[24, 18], [15, 27]]);
  // Each alone could be made.
  const tooLarge = await send({
    ...{ imageList, resize_mode: 1, upscaling_resize_w: 4096, upscaling_resize_h: 4097 },
  });
  assert.equal(tooLarge.status, 400);
  assert.match((await tooLarge.json()).detail, /would have 33562624 pixels, and at most 33554432/);
});

Deno.test("sdapi/extra-single-image refuses what it cannot do, and names what changes nothing", async () => {
  const upscaling: Partial<ModelInfo> = { ...INFO, optionalParts: ["upscaler"] };
  await using service = await start({}, { info: upscaling });
  const image = await halves(8, 8);
  const send = (body: unknown, to = service) => to.post("/sdapi/v1/extra-single-image", body);
  const cases: [fields: Record<string, unknown>, status: number, detail: RegExp][] = [
    [{ upscaler_1: "R-ESRGAN 4x+" }, 422, /this server has 'None', 'Lanczos', 'Default'/],
    [{ upscaler_1: "Default" }, 400, /it works on images that the model makes; send upscaler_1/],
    [{ upscaling_resize: 4.5 }, 422, /less than or equal to 4/],
    [{ upscaling_resize: 0 }, 422, /greater than or equal to 1/],
    [{ resize_mode: 2 }, 422, /less than or equal to 1/],
    [{ resize_mode: 1, upscaling_resize_w: 0 }, 422, /greater than or equal to 1/],
    [{ resize_mode: 1, upscaling_resize_w: 1e6, upscaling_resize_h: 1e6 }, 400, /Cannot resize to/],
    [
      { resize_mode: 1, upscaling_resize_w: 1e6, upscaling_crop: false },
      400,
      /Cannot resize to 1000000x1000000/,
    ],
    [{ image: "***" }, 400, /its base64 is not valid/],
    [{ image: "AAAA" }, 400, /of no known format/],
    [{ image: null }, 422, /Input should be a valid string/],
  ];
  for (const [fields, status, detail] of cases) {
    const response = await send({ image, ...fields });
    const body = await response.json();
    assert.equal(response.status, status, JSON.stringify(body));
    assert.equal(body.error, "HTTPException");
    assert.match(JSON.stringify(body.detail), detail);
  }
  const odd = {
    ...{ image, gfpgan_visibility: 0.5, codeformer_visibility: 1 },
    ...{ upscaler_2: "Lanczos", extras_upscaler_2_visibility: 0.3 },
  };
  const named = await send(odd);
  assert.equal(named.status, 200);
  assert.equal(
    named.headers.get("x-ignored-fields"),
    "gfpgan_visibility, codeformer_visibility, upscaler_2",
  );
  await named.body?.cancel();
  await using strict = await start({ strictFields: true });
  const refused = await send(odd, strict);
  assert.equal(refused.status, 400);
  assert.match((await refused.json()).detail, /Cannot use field 'gfpgan_visibility'/);
});

Deno.test("sdapi/options keeps options that are not the server's own, within bounds", async () => {
  await using service = await start();
  const set = (options: unknown, to = service) => to.post("/sdapi/v1/options", options);
  const get = async () => await (await service.get("/sdapi/v1/options")).json();
  const before = await get();
  assert.equal((await set({ send_seed: false, quicksettings_list: ["a", "b"] })).status, 200);
  assert.deepEqual(await get(), { ...before, send_seed: false, quicksettings_list: ["a", "b"] });
  await set({ send_seed: true });
  assert.equal((await get()).send_seed, true);
  const fixed = await set({ samples_format: "jpg", sd_vae: "Automatic" });
  assert.equal(fixed.headers.get("x-ignored-fields"), "samples_format");
  assert.equal((await get()).samples_format, "png");
  const many = Object.fromEntries(Array.from({ length: 199 }, (_, i) => [`option_${i}`, i]));
  const cases: [unknown, RegExp][] = [
    [many, /Cannot keep 201 options: a server keeps at most 200/],
    [{ a: 1, long: "x".repeat(1000) }, /Cannot keep the option 'long': its value must be/],
    [{ a: 1, nested: { b: 1 } }, /Cannot keep the option 'nested'/],
    [{ a: 1, ["n".repeat(201)]: 1 }, /its name has 201 characters, and at most 200/],
  ];
  for (const [options, detail] of cases) {
    const response = await set(options);
    assert.equal(response.status, 400);
    assert.match((await response.json()).detail, detail);
  }
  assert.equal((await get()).a, undefined);
  await using strict = await start({ strictFields: true });
  assert.equal((await set({ samples_format: "jpg" }, strict)).status, 400);
  assert.equal((await set({ send_seed: false }, strict)).status, 200);
});

Deno.test("sdapi/memory tells the machine's memory, and that nobody knows the GPU's", async () => {
  await using service = await start();
  const { ram: { free, used, total }, cuda } = await (await service.get("/sdapi/v1/memory")).json();
  assert.ok(free > 0 && used > 0 && free < total && used < total);
  assert.match(cuda.error, /^Cannot tell/);
});

Deno.test("sdapi refuses or names what it makes no use of, in the words of its clients", async () => {
  await using service = await start();
  const txt2img = (fields: Record<string, unknown>) =>
    service.post("/sdapi/v1/txt2img", { prompt: "a", ...fields });
  const idle = await txt2img({ init_images: ["x"], mask: "x", denoising_strength: 0.4 });
  assert.equal(idle.headers.get("x-ignored-fields"), "init_images, mask, denoising_strength");
  const cases: [Record<string, unknown>, RegExp][] = [
    [{ steps: 0 }, /^steps must be positive/],
    [{ cfg_scale: -1 }, /cfg_scale/],
    [{ batch_size: -2, n_iter: -2 }, /batch_size times n_iter/],
    [{ override_settings: { sd_model_checkpoint: ["x"] } }, /sd_model_checkpoint must be a text/],
  ];
  for (const [fields, message] of cases) {
    const answer = await txt2img(fields);
    assert.equal(answer.status, 400, JSON.stringify(fields));
    assert.match((await answer.json()).errors, message);
  }
});

Deno.test("sdapi makes a hires fix of enable_hr, by WebUI's names", async () => {
  const taskDefaults = { TI2I: { strength: 0.6 } };
  const info = { ...INFO, supportedTasks: ["T2I", "TI2I"] as const, taskDefaults };
  await using service = await start({}, {
    info: { ...info, defaultTask: "T2I", startsFromLatents: true, optionalSettings: ["sampler"] },
  });
  const modes = await (await service.get("/sdapi/v1/latent-upscale-modes")).json();
  assert.equal(modes[1].name, "Latent (antialiased)");
  const sent = {
    ...{ prompt: "a fox", steps: 6, width: 64, height: 48, enable_hr: true },
    ...{ denoising_strength: 0.5, hr_upscaler: "Latent (bicubic)", hr_second_pass_steps: 4 },
  };
  const send = (more: object) => service.post("/sdapi/v1/txt2img", { ...sent, ...more });
  const scaled = await send({
    ...{ hr_scale: 1.5, hr_prompt: "a red fox <lora:x:1>", hr_negative_prompt: "dark" },
    ...{ hr_sampler_name: "Euler a", hr_scheduler: "Use same scheduler" },
  });
  assert.equal(scaled.status, 200, await scaled.clone().text());
  assert.equal(scaled.headers.get("x-ignored-fields"), null);
  const { images: [image], info: told } = await scaled.json();
  const { width, height } = await decodeImage(Uint8Array.fromBase64(image));
  assert.deepEqual([width, height], [96, 80]);
  const [text] = JSON.parse(told).infotexts;
  assert.match(text, /Denoising strength: 0.5, Hires upscale: 1.5, Hires upscaler: Latent \(bicub/);
  const resized = await send({ hr_resize_x: 128, hr_resize_y: 96, hr_upscaler: "Lanczos" });
  assert.equal(resized.status, 200, await resized.clone().text());
  const [first, second] = service.engine.requests;
  const hires = (request: typeof first) =>
    Object.fromEntries(Object.entries(request!).filter(([name]) => name.startsWith("hires")));
  assert.deepEqual(hires(first), {
    ...{ hiresScale: 1.5, hiresUpscaler: "latent_bicubic", hiresStrength: 0.5, hiresSteps: 4 },
    ...{ hiresPrompt: "a red fox", hiresNegativePrompt: "dark", hiresSampler: "euler_ancestral" },
  });
  assert.deepEqual(hires(second), {
    ...{ hiresWidth: 128, hiresHeight: 96, hiresUpscaler: "lanczos" },
    ...{ hiresStrength: 0.5, hiresSteps: 4 },
  });
  for (
    const [more, detail] of [
      [{ hr_upscaler: "4x-UltraSharp" }, /not in upscalers or latent-upscale-modes/],
      [{ hr_scale: 9 }, /hr_scale must be from 1 to 4, got 9/],
      [{ denoising_strength: 2 }, /denoising_strength must be above 0/],
      [{ hr_resize_x: 32 }, /a hires fix enlarges/],
    ] as const
  ) {
    const refused = await send(more);
    assert.equal(refused.status, 400);
    assert.match((await refused.json()).detail, detail);
  }
});
