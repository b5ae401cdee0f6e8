/** Reference images of an IP-Adapter, in every way in which requests bring them. */
import assert from "node:assert/strict";
import { encodeImage } from "../../media/encode.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { testService } from "../fakes/service.ts";

const [GENERATIONS, EDITS] = ["/v1/images/generations", "/v1/images/edits"];

const seeing = () =>
  new FakeEngine({
    info: {
      ...{ defaultTask: "T2I", supportedTasks: ["T2I", "TI2I"] },
      optionalParts: ["ipAdapter"],
      optionalSettings: ["ipAdapterName", "ipAdapterScale", "ipAdapterStart", "ipAdapterEnd"],
      ipAdapters: [{ name: "plus" }, { name: "face" }],
      ...{ maxReferences: 2, referenceSide: 28 },
    },
  });

/** A PNG, white in its middle third. */
async function makePng(width: number, height: number): Promise<Uint8Array<ArrayBuffer>> {
  const data = Uint8Array.from(
    { length: width * height * 3 },
    (_, i) => Math.abs(Math.floor(i / 3) % width + 0.5 - width / 2) < width / 6 ? 255 : 0,
  );
  return (await encodeImage({ width, height, data }, { format: "png" })).bytes;
}

Deno.test("images take reference images as the middle squares that an IP-Adapter's encoder sees, in JSON and in forms", async () => {
  await using service = await testService({ engine: seeing() });
  const [wide, high] = [await makePng(84, 28), await makePng(28, 56)];
  const [first, second] = [wide, high].map((png) => `data:image/png;base64,${png.toBase64()}`);
  const settings = { ip_adapter_scale: 0.6, ip_adapter_end: 0.5 };
  const body = { prompt: "a", seed: 1, size: "64x48", ...settings };
  const json = await service.post(GENERATIONS, { ...body, reference: [first, second] });
  const form = new FormData();
  form.set("image", new Blob([await makePng(64, 48)]));
  for (const png of [wide, high]) form.append("reference_images", new Blob([png]));
  for (const [name, value] of Object.entries(body)) form.set(name, String(value));
  const edit = await service.get(EDITS, { method: "POST", body: form });
  for (const response of [json, edit]) {
    assert.equal(response.status, 200, await response.clone().text());
    assert.equal(response.headers.get("x-ignored-fields"), null);
    await response.body?.cancel();
  }
  const [made, edited] = service.engine.requests;
  assert.deepEqual(made!.references, edited!.references);
  const { references, ipAdapterScale, ipAdapterEnd } = made!;
  assert.deepEqual([ipAdapterScale, ipAdapterEnd, edited!.images!.length], [[0.6], [0.5], 1]);
  assert.deepEqual(references!.map(({ width, height }) => [width, height]), [[28, 28], [28, 28]]);
  assert.ok(references![0]!.data.every((value) => value === 255));
});

Deno.test("images refuse reference images that are too many or broken, and tell where no adapter sees them", async () => {
  await using service = await testService({ engine: seeing() });
  const reference = `data:image/png;base64,${(await makePng(30, 30)).toBase64()}`;
  const cases = [
    [{ reference: [reference, reference, reference] }, "reference", /3 reference images: .* 2$/],
    [{ reference: "data:image/png;base64,AAAA" }, "reference", /^Failed to process image source/],
    [{ reference, ip_adapter_scale: 11 }, "ip_adapter_scale", /from 0 to 10, got 11/],
    [{ reference, ip_adapter_scale: [1, 2] }, "ip_adapter_scale", /2 values of ip_adapter_scale/],
    [{ reference, ip_adapter_name: "none" }, "ip_adapter_name", /the model has plus, face/],
    [{ reference, reference_mask: [reference, reference] }, "reference_mask", /2 masks for 1 ref/],
    [{ ip_adapter_end: 0.5 }, "ip_adapter_end", /the request has no reference image/],
    [
      { reference, ip_adapter_start: 0.5, ip_adapter_end: 0.5 },
      "ip_adapter_start",
      /must be below 0\.5, where they end/,
    ],
  ] as const;
  for (const [fields, param, message] of cases) {
    const response = await service.post(GENERATIONS, { prompt: "a", ...fields });
    const { error } = await response.json();
    assert.deepEqual([response.status, error.param], [400, param], error.message);
    assert.match(error.message, message);
  }
  await using plain = await testService();
  const asked = { prompt: "a", reference, reference_mask: reference, ip_adapter_scale: 1 };
  const response = await plain.post(GENERATIONS, asked);
  assert.equal(response.status, 200, await response.clone().text());
  assert.equal(
    response.headers.get("x-ignored-fields"),
    "ip_adapter_scale, reference_mask, reference",
  );
  await response.body?.cancel();
});

Deno.test("images take a mask, an IP-Adapter and a scale for each reference image, in JSON and in forms", async () => {
  await using service = await testService({ engine: seeing() });
  const [wide, high] = [await makePng(84, 28), await makePng(28, 56)];
  const [first, second] = [wide, high].map((png) => `data:image/png;base64,${png.toBase64()}`);
  const settings = { ip_adapter_name: ["face", "face"], ip_adapter_scale: [0.6, 0.9] };
  const body = { prompt: "a", seed: 1, size: "96x32", ...settings };
  const given = { reference: [first, second], ip_adapter_masks: [first, second] };
  const json = await service.post(GENERATIONS, { ...body, ...given });
  const form = new FormData();
  form.set("image", new Blob([await makePng(96, 32)]));
  for (const [name, value] of Object.entries(body)) {
    for (const each of [value].flat()) form.append(name, String(each));
  }
  for (const png of [wide, high]) {
    form.append("reference", new Blob([png]));
    form.append("reference_mask", new Blob([png]));
  }
  const edit = await service.get(EDITS, { method: "POST", body: form });
  for (const response of [json, edit]) {
    assert.equal(response.status, 200, await response.clone().text());
    assert.equal(response.headers.get("x-ignored-fields"), null);
    await response.body?.cancel();
  }
  for (const { referenceMasks, ipAdapterName, ipAdapterScale } of service.engine.requests) {
    assert.deepEqual([ipAdapterName, ipAdapterScale], [["face", "face"], [0.6, 0.9]]);
    assert.deepEqual(
      referenceMasks!.map(({ width, height, data }) => [width, height, data[3 * 48], data[0]]),
      [[96, 32, 255, 0], [96, 32, 255, 0]],
    );
  }
});

Deno.test("sdapi reads ip-adapter units of the ControlNet extension as reference images", async () => {
  await using service = await testService({ engine: seeing() });
  const [wide, high] = [await makePng(84, 28), await makePng(28, 56)].map((png) => png.toBase64());
  const unit = {
    ...{ module: "ip-adapter_clip_sdxl", model: "None", control_mode: "Balanced" },
    ...{ weight: 0.6, guidance_start: 0, guidance_end: 0.5, resize_mode: 1 },
  };
  const send = (...args: unknown[]) =>
    service.post("/sdapi/v1/txt2img", {
      ...{ prompt: "a", seed: 1, width: 64, height: 48 },
      alwayson_scripts: { controlnet: { args } },
    });
  const made = await send({ ...unit, image: wide }, { ...unit, image: { image: high } });
  assert.equal(made.status, 200, await made.clone().text());
  assert.equal(made.headers.get("x-ignored-fields"), null);
  await made.body?.cancel();
  const [{ references, ipAdapterScale, ipAdapterEnd, control }] = service.engine.requests as [
    (typeof service.engine.requests)[number],
  ];
  assert.deepEqual([references!.length, ipAdapterScale, ipAdapterEnd, control], [
    ...[2, [0.6, 0.6], [0.5, 0.5], undefined],
  ]);
  const parted = await send(
    { ...unit, image: wide, model: "face [00]", effective_region_mask: wide },
    { ...unit, image: high, model: "plus", weight: 1 },
  );
  assert.equal(parted.status, 200, await parted.clone().text());
  await parted.body?.cancel();
  const { referenceMasks, ...said } = service.engine.requests[1]!;
  assert.deepEqual([said.ipAdapterName, said.ipAdapterScale], [["face", "plus"], [0.6, 1]]);
  assert.deepEqual(referenceMasks!.map(({ data }) => data[0]), [0, 255]);
  const cases = [
    [[unit], /a unit without a picture/],
    [[{ ...unit, image: wide, mask: high }], /the mask of a unit/],
    [[{ ...unit, image: wide, module: "ip-adapter_face_id_plus" }], /it recognises faces/],
    [[{ ...unit, image: wide, model: "eye" }], /the model 'eye' of unit 1: there are plus, face/],
    [[{ ...unit, image: wide, advanced_weighting: [1, 0.5] }], /advanced_weighting: .* one weight/],
    [[{ ...unit, image: wide, module: "none" }], /the model has no ControlNet/],
  ] as const;
  for (const [units, message] of cases) {
    const response = await send(...units);
    const { errors } = await response.json();
    assert.deepEqual([response.status, message.test(errors)], [400, true], errors);
  }
  const lists = ["model", "module"].map(async (kind) =>
    (await (await service.get(`/controlnet/${kind}_list`)).json())[`${kind}_list`]
  );
  assert.deepEqual(await Promise.all(lists), [
    ["plus", "face"],
    ["none", "canny", "ip-adapter-auto"],
  ]);
});
