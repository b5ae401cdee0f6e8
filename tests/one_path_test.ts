/** The library, HTTP and WebUI's routes ask the engine for the same. */
import assert from "node:assert/strict";
import type { GenerateRequest, ModelInfo } from "../engine/types.ts";
import type { GenerateOptions, GenerateVideoOptions } from "../mod.ts";
import { Model } from "../library/model.ts";
import { encodeImage } from "../media/encode.ts";
import type { PixelImage, RgbImage } from "../media/image.ts";
import { FakeEngine } from "./fakes/engine.ts";
import { testService } from "./fakes/service.ts";
import { slopes } from "./support/pixels.ts";

const INFO: Partial<ModelInfo> = {
  defaultTask: "T2I",
  supportedTasks: ["T2I", "TI2I", "T2V", "I2V"],
  inpainting: { strength: 0.8 },
  taskDefaults: { TI2I: { strength: 0.6 } },
  optionalParts: ["controlnet"],
  controlNets: [{ name: "edges" }],
  optionalSettings: ["sampler", "controlScale", "maxSequenceLength"],
  maxImages: 2,
  maxEditImages: 2,
};

/** What is said of images, with the names of each way. */
interface Case {
  readonly library: Omit<GenerateOptions, "images" | "mask" | "control">;
  readonly http: Readonly<Record<string, string>>;
  readonly webui: Readonly<Record<string, unknown>>;
  readonly images?: readonly PixelImage[];
  readonly mask?: RgbImage;
  readonly control?: RgbImage;
}

const upperHalf: RgbImage = {
  ...slopes(64, 48),
  data: slopes(64, 48).data.map((_, i) => i < 4608 ? 255 : 0),
};
const holed: PixelImage = {
  width: 64,
  height: 48,
  channels: 4,
  data: new Uint8Array(64 * 48 * 4).map((_, i) => i % 4 === 3 && i < 6000 ? 0 : 200),
};

const CASES: Readonly<Record<string, Case>> = {
  "a prompt alone": {
    library: { prompt: "a fox", seed: 7 },
    http: { prompt: "a fox", seed: "7" },
    webui: { prompt: "a fox", seed: 7 },
  },
  "settings and a size": {
    library: {
      prompt: "a fox",
      seed: 7,
      width: 80,
      height: 64,
      numInferenceSteps: 3,
      guidanceScale: 2,
      negativePrompt: "dark",
    },
    http: {
      prompt: "a fox",
      seed: "7",
      size: "80x64",
      num_inference_steps: "3",
      guidance_scale: "2",
      negative_prompt: "dark",
    },
    webui: {
      prompt: "a fox",
      seed: 7,
      width: 80,
      height: 64,
      steps: 3,
      cfg_scale: 2,
      negative_prompt: "dark",
    },
  },
  // WebUI stretches where the others cut, so the image has the shape of the result.
  "an image": {
    library: { prompt: "a fox", seed: 7, strength: 0.5 },
    http: { prompt: "a fox", seed: "7", strength: "0.5" },
    webui: { prompt: "a fox", seed: 7, denoising_strength: 0.5 },
    images: [slopes(96, 72)],
  },
  "an image and a mask": {
    library: { prompt: "a fox", seed: 7, strength: 0.7, maskBlur: 4 },
    http: { prompt: "a fox", seed: "7", strength: "0.7", mask_blur: "4" },
    webui: { prompt: "a fox", seed: 7, denoising_strength: 0.7, inpaint_full_res: false },
    images: [slopes(64, 48)],
    mask: upperHalf,
  },
  "an image with holes": {
    library: { prompt: "a fox", seed: 7, strength: 0.7 },
    http: { prompt: "a fox", seed: "7", strength: "0.7" },
    webui: { prompt: "a fox", seed: 7, denoising_strength: 0.7 },
    images: [holed],
  },
  "a control picture": {
    library: { prompt: "a fox", seed: 7, controlScale: [0.5] },
    http: { prompt: "a fox", seed: "7", control_scale: "0.5" },
    webui: { prompt: "a fox", seed: 7 },
    control: slopes(32, 64),
  },
};

const png = async (image: PixelImage) => (await encodeImage(image, { format: "png" })).bytes;
const base64 = async (image: PixelImage) => (await png(image)).toBase64();
const file = async (image: PixelImage) =>
  new File([await png(image)], "a.png", { type: "image/png" });

/** A request without what says nothing. */
function told(request: GenerateRequest | undefined): Record<string, unknown> {
  const entries = Object.entries(request ?? {}).filter(([, value]) =>
    value !== undefined && !(Array.isArray(value) && value.length === 0)
  );
  return { quality: "lossless", ...JSON.parse(JSON.stringify(Object.fromEntries(entries))) };
}

async function byLibrary({ library, images, mask, control }: Case): Promise<FakeEngine> {
  const engine = new FakeEngine({ info: INFO });
  const inputs = { ...(images && { images }), ...(mask && { mask }), ...(control && { control }) };
  await new Model(engine).generate({ ...library, ...inputs });
  return engine;
}

async function byHttp({ http, images = [], mask, control }: Case): Promise<FakeEngine> {
  await using service = await testService({ engine: new FakeEngine({ info: INFO }) });
  const form = new FormData();
  for (const [name, value] of Object.entries(http)) form.append(name, value);
  for (const image of images) form.append("image", await file(image));
  if (mask) form.append("mask", await file(mask));
  const fields = control
    ? { ...http, control: `data:image/png;base64,${await base64(control)}` }
    : http;
  const answer = images.length > 0
    ? await service.app.request("/v1/images/edits", { method: "POST", body: form })
    : await service.post("/v1/images/generations", numbered(fields));
  assert.equal(answer.status, 200, await answer.clone().text());
  return service.engine;
}

async function byWebui({ webui, images = [], mask, control, http }: Case): Promise<FakeEngine> {
  await using service = await testService({ engine: new FakeEngine({ info: INFO }) });
  const unit = control && {
    enabled: true,
    image: await base64(control),
    weight: Number(http["control_scale"]),
  };
  const body = {
    ...webui,
    ...(images.length > 0 && { init_images: await Promise.all(images.map(base64)) }),
    ...(mask && { mask: await base64(mask) }),
    ...(unit && { alwayson_scripts: { controlnet: { args: [unit] } } }),
  };
  const answer = await service.post(
    `/sdapi/v1/${images.length > 0 ? "img2img" : "txt2img"}`,
    body,
  );
  assert.equal(answer.status, 200, await answer.clone().text());
  return service.engine;
}

/** The values of a form as JSON has them. */
function numbered(fields: Readonly<Record<string, string>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map((
      [name, value],
    ) => [name, /^[\d.]+$/.test(value) ? Number(value) : value]),
  );
}

for (const [name, one] of Object.entries(CASES)) {
  Deno.test(`the library, HTTP and WebUI's routes ask for the same: ${name}`, async () => {
    const asked = await byLibrary(one);
    for (const engine of [await byHttp(one), await byWebui(one)]) {
      assert.deepEqual(told(engine.requests[0]), told(asked.requests[0]));
      assert.equal(engine.requests.length, 1);
    }
  });
}

Deno.test("the library and HTTP ask for the same video", async () => {
  const library = new FakeEngine({ info: INFO });
  const options: GenerateVideoOptions = {
    prompt: "a fox",
    seed: 7,
    seconds: 1,
    images: [slopes(90, 70)],
  };
  await new Model(library).generateVideo(options);
  await using service = await testService({ engine: new FakeEngine({ info: INFO }) });
  const form = new FormData();
  form.append("prompt", "a fox");
  form.append("seed", "7");
  form.append("seconds", "1");
  form.append("input_reference", await file(slopes(90, 70)));
  const answer = await service.app.request("/v1/videos", { method: "POST", body: form });
  assert.equal(answer.status, 200, await answer.clone().text());
  const { id } = await answer.json();
  await service.queue.join({ id, kind: "video", restore: () => Promise.resolve() });
  assert.deepEqual(told(service.engine.requests[0]), told(library.requests[0]));
});
