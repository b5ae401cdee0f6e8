import assert from "node:assert/strict";
import { encodeImage } from "../../media/encode.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { testService } from "../fakes/service.ts";

const [GENERATIONS, EDITS] = ["/v1/images/generations", "/v1/images/edits"];

const steered = (controlModes = ["canny", "pose"]) =>
  new FakeEngine({
    info: {
      ...{ defaultTask: "T2I", supportedTasks: ["T2I", "TI2I"] },
      optionalParts: ["controlnet"],
      optionalSettings: [
        "controlScale",
        "controlStart",
        "controlEnd",
        "controlMode",
        "controlType",
        "cannyLow",
        "cannyHigh",
      ],
      controlModes,
    },
  });

/** A PNG whose left half is white. */
async function makePng(width: number, height: number): Promise<Uint8Array<ArrayBuffer>> {
  const data = Uint8Array.from(
    { length: width * height * 3 },
    (_, i) => Math.floor(i / 3) % width < width / 2 ? 255 : 0,
  );
  return (await encodeImage({ width, height, data }, { format: "png" })).bytes;
}

Deno.test("POST /v1/images/generations gives the model a control picture in the size of the result, whose shape it has", async () => {
  await using service = await testService({ engine: steered() });
  const control = `data:image/png;base64,${(await makePng(300, 100)).toBase64()}`;
  const fields = { prompt: "a knight", seed: 7, control, control_mode: "pose", control_end: 0.7 };
  for (const weight of [{ control_scale: 0.8 }, { controlnet_conditioning_scale: 0.8 }]) {
    const response = await service.post(GENERATIONS, { ...fields, ...weight });
    assert.equal(response.status, 200, await response.clone().text());
    assert.equal(response.headers.get("x-ignored-fields"), null);
    await response.body?.cancel();
  }
  const sized = await service.post(GENERATIONS, { ...fields, size: "32x32", fit: "contain" });
  assert.equal(sized.status, 200);
  const [first, second, third] = service.engine.requests;
  assert.deepEqual(second, first);
  const { width, height, control: picture, controlScale, controlMode, controlEnd } = first!;
  // 64x48 pixels in the shape 3:1, in multiples of 16.
  assert.deepEqual([width, height, picture!.width, picture!.height], [96, 32, 96, 32]);
  assert.deepEqual([controlScale, controlMode, controlEnd], [[0.8], "pose", 0.7]);
  assert.deepEqual([picture!.data[0], picture!.data.at(-1)], [255, 0]);
  assert.deepEqual([third!.control!.width, third!.control!.height], [32, 32]);
  // Black lies around it.
  assert.equal(third!.control!.data[0], 0);
});

Deno.test("POST /v1/images/edits takes a control picture beside the image, as a file", async () => {
  await using service = await testService({ engine: steered() });
  const form = new FormData();
  form.set("image", new Blob([await makePng(64, 48)]));
  form.set("control", new Blob([await makePng(80, 60)]));
  for (const [name, value] of Object.entries({ prompt: "a", control_type: "canny" })) {
    form.set(name, value);
  }
  const response = await service.get(EDITS, { method: "POST", body: form });
  assert.equal(response.status, 200, await response.clone().text());
  const [request] = service.engine.requests;
  assert.deepEqual([request!.control!.width, request!.control!.height], [64, 48]);
  assert.equal(request!.images!.length, 1);
  assert.equal(request!.controlType, "canny");
});

Deno.test("POST /v1/images/generations refuses control pictures that are broken, of no mode, or that nothing reads", async () => {
  await using service = await testService({ engine: steered() });
  const png = await makePng(64, 48);
  const control = `data:image/png;base64,${png.toBase64()}`;
  const broken = `data:image/png;base64,${png.subarray(0, 60).toBase64()}`;
  const cases = [
    [
      { control: broken, control_mode: "pose" },
      "control",
      /^Failed to process control picture: Cannot/,
    ],
    [
      { control: "https://10.0.0.1/a.png", control_mode: "pose" },
      "control",
      /its address is not public/,
    ],
    [{ control }, "control_mode", /must say what the control picture shows, one of canny, pose/],
    [{ control, control_mode: "depth" }, "control_mode", /one of canny, pose, got depth/],
    [{ control, control_end: 2 }, "control_end", /must be from 0 to 1, got 2/],
    [
      { control, control_mode: "pose", control_start: 0.9, control_end: 0.1 },
      "control_start",
      /^control_start must be below 0\.1, where it ends, got 0\.9/,
    ],
  ] as const;
  for (const [fields, param, message] of cases) {
    const response = await service.post(GENERATIONS, { prompt: "a", ...fields });
    const { error } = await response.json();
    assert.deepEqual([response.status, error.param], [400, param], error.message);
    assert.match(error.message, message);
  }
  assert.equal(service.engine.requests.length, 0);
  await using plain = await testService();
  const response = await plain.post(GENERATIONS, { prompt: "a", control });
  const { error } = await response.json();
  assert.deepEqual([response.status, error.param], [400, "control"]);
  assert.match(error.message, /the model has no ControlNet; name its file with --controlnet/);
});

/** What clients of the ControlNet extension send beside what counts here. */
const UNIT = {
  ...{ enabled: true, module: "none", model: "union [1234abcd]", lowvram: false },
  ...{ weight: 0.8, guidance_start: 0, guidance_end: 0.7, control_mode: "Balanced" },
  ...{ pixel_perfect: true, processor_res: 512, resize_mode: 1, union_control_type: "OpenPose" },
};

Deno.test("sdapi steers by a unit of the ControlNet extension as /v1/images/generations does by its fields", async () => {
  await using service = await testService({ engine: steered() });
  const png = (await makePng(64, 48)).toBase64();
  const off = { ...UNIT, enabled: false };
  const units = { ControlNet: { args: [off, { ...UNIT, image: png }, null] } };
  const asked = { prompt: "a knight", seed: 7, width: 64, height: 48 };
  const send = (path: string, body: unknown) => service.post(`/sdapi/v1/${path}`, body);
  const text = await send("txt2img", { ...asked, alwayson_scripts: units });
  assert.equal(text.status, 200, await text.clone().text());
  assert.equal(text.headers.get("x-ignored-fields"), null);
  const { parameters } = await text.json();
  assert.deepEqual(parameters, asked);
  const plain = await service.post(GENERATIONS, {
    ...{ prompt: "a knight", seed: 7, size: "64x48", control: `data:image/png;base64,${png}` },
    ...{ control_mode: "pose", control_scale: 0.8, control_start: 0, control_end: 0.7 },
  });
  assert.equal(plain.status, 200, await plain.clone().text());
  await plain.body?.cancel();
  // Without a picture of its own a unit has that of img2img.
  const canny = { ...UNIT, module: "canny", threshold_a: 50, threshold_b: -1 };
  const image = await send("img2img", {
    ...{ ...asked, init_images: [png] },
    alwayson_scripts: { controlnet: { args: [{ ...canny, union_control_type: undefined }] } },
  });
  assert.equal(image.status, 200, await image.clone().text());
  await image.body?.cancel();
  const [first, second, third] = service.engine.requests;
  const told = (
    { control, controlScale, controlMode, controlStart, controlEnd }: typeof first & object,
  ) => (
    { control, controlScale, controlMode, controlStart, controlEnd }
  );
  assert.deepEqual(told(first!), told(second!));
  assert.deepEqual([third!.controlType, third!.cannyLow, third!.cannyHigh], [
    "canny",
    50,
    undefined,
  ]);
  assert.deepEqual([third!.images!.length, third!.control!.width], [1, 64]);
});

Deno.test("sdapi refuses units of the ControlNet extension that ask for more", async () => {
  await using service = await testService({ engine: steered() });
  const image = (await makePng(64, 48)).toBase64();
  const cases = [
    [[UNIT], /a unit without a picture: send it in image/],
    [[{ ...UNIT, image }, { ...UNIT, image }], /2 units at once: one picture steers a result/],
    [
      [{ ...UNIT, image, module: "openpose_full" }],
      /the preprocessor 'openpose_full': canny is made here/,
    ],
    [[{ ...UNIT, image, control_mode: 2 }], /control_mode 2: 0, 'Balanced', is what is done here/],
    [[{ ...UNIT, image, mask: image }], /the mask of a unit/],
    [
      [{ ...UNIT, image, union_control_type: "Depth" }],
      /'Depth': this ControlNet asks .* canny, pose/,
    ],
    [[{ ...UNIT, image, resize_mode: 5 }], /resize_mode 5: it can be 0 to 2/],
  ] as const;
  for (const [args, message] of cases) {
    const body = { prompt: "a", alwayson_scripts: { controlnet: { args } } };
    const response = await service.post("/sdapi/v1/txt2img", body);
    const { errors } = await response.json();
    assert.equal(response.status, 400, errors);
    assert.match(errors, message);
  }
  await using plain = await testService();
  const body = { prompt: "a", alwayson_scripts: { controlnet: { args: [{ ...UNIT, image }] } } };
  const response = await plain.post("/sdapi/v1/txt2img", body);
  assert.match((await response.json()).errors, /the model has no ControlNet/);
  const quiet = { prompt: "a", alwayson_scripts: { controlnet: { args: [] } } };
  const made = await plain.post("/sdapi/v1/txt2img", quiet);
  assert.deepEqual([made.status, made.headers.get("x-ignored-fields")], [200, null]);
  await made.body?.cancel();
  assert.equal(service.engine.requests.length, 0);
});

Deno.test("GET /controlnet/model_list, module_list and version tell WebUI's clients what there is", async () => {
  await using service = await testService({ engine: steered() });
  await using plain = await testService();
  const lists = async (server: typeof plain) =>
    (await (await server.get("/controlnet/model_list")).json()).model_list.length;
  assert.deepEqual([await lists(service), await lists(plain)], [1, 0]);
  const modules = await (await service.get("/controlnet/module_list")).json();
  assert.deepEqual(modules, { module_list: ["none", "canny"] });
  assert.equal((await (await service.get("/controlnet/version")).json()).version, 2);
});

Deno.test("sdapi reads WebUI's kinds of pictures as the modes of SDXL's Union ControlNets", async () => {
  const kinds = { "OpenPose": "openpose", "Soft Edge": "scribble", "Hard Edge": "canny" };
  const more = { "Normal Map": "normal", "Segmentation": "segment", "Inpaint": "repaint" };
  const modes = [...Object.values({ ...kinds, ...more }), "depth", "tile"];
  await using service = await testService({ engine: steered(modes) });
  const image = (await makePng(32, 32)).toBase64();
  for (const [kind, mode] of Object.entries({ ...kinds, ...more })) {
    const args = [{ ...UNIT, image, union_control_type: kind }];
    const body = { prompt: "a", alwayson_scripts: { controlnet: { args } } };
    const response = await service.post("/sdapi/v1/txt2img", body);
    assert.equal(response.status, 200, await response.text());
    assert.equal(service.engine.requests.at(-1)!.controlMode, mode);
  }
});
