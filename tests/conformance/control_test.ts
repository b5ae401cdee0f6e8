import assert from "node:assert/strict";
import { encodeImage } from "../../media/encode.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { testService } from "../fakes/service.ts";

const [GENERATIONS, EDITS] = ["/v1/images/generations", "/v1/images/edits"];

const steered = (controlModes = ["canny", "pose"], others: readonly string[] = []) =>
  new FakeEngine({
    info: {
      ...{ defaultTask: "T2I", supportedTasks: ["T2I", "TI2I"] },
      optionalParts: ["controlnet"],
      optionalSettings: [
        "controlNet",
        ...others.length > 0 ? ["controlBalance" as const] : [],
        "controlScale",
        "controlStart",
        "controlEnd",
        "controlMode",
        "controlType",
        "cannyLow",
        "cannyHigh",
      ],
      controlNets: [
        { name: "union", modes: controlModes },
        ...others.map((name) => ({ name })),
      ],
      maxControls: 1 + others.length,
      controlsInpainting: others.length > 0,
      inpainting: { strength: 1 },
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
  assert.deepEqual([width, height, picture![0]!.width, picture![0]!.height], [96, 32, 96, 32]);
  assert.deepEqual([controlScale, controlMode, controlEnd], [[0.8], ["pose"], [0.7]]);
  assert.deepEqual([picture![0]!.data[0], picture![0]!.data.at(-1)], [255, 0]);
  assert.deepEqual([third!.control![0]!.width, third!.control![0]!.height], [32, 32]);
  // Black lies around it.
  assert.equal(third!.control![0]!.data[0], 0);
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
  assert.deepEqual([request!.control![0]!.width, request!.control![0]!.height], [64, 48]);
  assert.equal(request!.images!.length, 1);
  assert.deepEqual(request!.controlType, ["canny"]);
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

Deno.test("HTTP and sdapi steer by several control pictures alike, each by its own ControlNet and settings", async () => {
  await using service = await testService({ engine: steered(undefined, ["depth", "edges"]) });
  const [wide, square] = [await makePng(64, 32), await makePng(32, 32)];
  const data = [wide, square].map((png) => `data:image/png;base64,${png.toBase64()}`);
  const settings = {
    control_net: ["edges", "union"],
    control_balance: ["control", "balanced"],
    control_mode: ["none", "pose"],
    control_scale: [0.8, 1],
    control_start: [0, 0.5],
    control_end: [1, 0.9],
  };
  const shared = { prompt: "a", seed: 7 };
  const form = new FormData();
  const fields = { ...shared, ...settings };
  for (const [name, values] of Object.entries(fields)) {
    for (const value of [values].flat()) form.append(name, String(value));
  }
  form.set("image", new Blob([wide]));
  for (const png of [wide, square]) form.append("control[]", new Blob([png]));
  const units = [
    {
      module: "none",
      control_mode: 2,
      model: "edges [1234abcd]",
      weight: 0.8,
      image: data[0],
      guidance_start: 0,
    },
    { model: "union", union_control_type: "OpenPose", image: data[1], guidance_start: 0.5 },
  ].map((unit, i) => ({ ...unit, guidance_end: settings.control_end[i] }));
  const scripts = { alwayson_scripts: { controlnet: { args: units } } };
  const responses = [
    await service.post(GENERATIONS, { ...fields, control: data }),
    await service.get(EDITS, { method: "POST", body: form }),
    await service.post("/sdapi/v1/txt2img", { ...shared, width: 64, height: 32, ...scripts }),
  ];
  for (const response of responses) assert.equal(response.status, 200, await response.text());
  const told = service.engine.requests.map((request) => ({
    control: request.control!.length,
    ...Object.fromEntries(
      Object.entries(request).filter(([name]) => /^control[A-Z]/.test(name)),
    ),
  }));
  const expected = {
    control: 2,
    controlNet: ["edges", "union"],
    controlBalance: ["control", "balanced"],
    controlMode: ["none", "pose"],
    controlScale: [0.8, 1],
    controlStart: [0, 0.5],
    controlEnd: [1, 0.9],
  };
  assert.deepEqual(told, [expected, expected, expected]);
  const { data: [card] } = await (await service.get("/v1/models")).json();
  assert.deepEqual([card.max_controls, card.control_nets.at(-1)], [3, {
    name: "edges",
    modes: null,
  }]);
  const cases = [
    [{ control: [...data, ...data] }, "control", /4 control pictures: this model takes 3/],
    [
      { control: data, control_net: "depths" },
      "control_net",
      /ControlNet "depths": the model has union, depth, edges/,
    ],
    [
      { control: data, control_scale: [1, 1, 1] },
      "control_scale",
      /3 values of control_scale: give one for all 2 pictures, or one for each/,
    ],
  ] as const;
  for (const [wrong, param, message] of cases) {
    const response = await service.post(GENERATIONS, { ...shared, control_mode: "pose", ...wrong });
    const { error } = await response.json();
    assert.deepEqual([response.status, error.param], [400, param], error.message);
    assert.match(error.message, message);
  }
});

Deno.test("HTTP and sdapi let a ControlNet see the image without what its mask redraws, and no picture", async () => {
  await using service = await testService({ engine: steered(undefined, ["inpaint"]) });
  const [image, mask] = [await makePng(64, 48), await makePng(64, 48)];
  const form = new FormData();
  const fields = { prompt: "a", seed: "7", strength: "1", control_net: "inpaint" };
  for (const [name, value] of Object.entries({ ...fields, control_type: "inpaint" })) {
    form.set(name, value);
  }
  form.set("image", new Blob([image]));
  form.set("mask", new Blob([mask]));
  const unit = { module: "inpaint_only", model: "inpaint", weight: 1 };
  const responses = [
    await service.get(EDITS, { method: "POST", body: form }),
    await service.post("/sdapi/v1/img2img", {
      ...{ prompt: "a", seed: 7, denoising_strength: 1, width: 64, height: 48 },
      ...{ init_images: [image.toBase64()], mask: mask.toBase64() },
      alwayson_scripts: { controlnet: { args: [unit] } },
    }),
  ];
  for (const response of responses) assert.equal(response.status, 200, await response.text());
  for (const { control, controlNet, controlType, mask } of service.engine.requests) {
    assert.deepEqual([control?.length ?? 0, controlNet, controlType], [0, ["inpaint"], [
      "inpaint",
    ]]);
    assert.equal(mask!.length, 1);
  }
  form.delete("mask");
  const response = await service.get(EDITS, { method: "POST", body: form });
  const { error } = await response.json();
  assert.deepEqual([response.status, error.param], [400, "control_type"]);
  assert.match(error.message, /control_type inpaint: the request has no mask/);
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
    ["canny"],
    [50],
    undefined,
  ]);
  assert.deepEqual([third!.images!.length, third!.control![0]!.width], [1, 64]);
});

Deno.test("sdapi refuses units of the ControlNet extension that ask for more", async () => {
  await using service = await testService({ engine: steered() });
  const image = (await makePng(64, 48)).toBase64();
  const cases = [
    [[UNIT], /a unit without a picture: send it in image/],
    [[{ ...UNIT, image }, { ...UNIT, image }], /Cannot use 2 control pictures: this model takes 1/],
    [
      [{ ...UNIT, image, module: "openpose_full" }],
      /the preprocessor 'openpose_full': canny is made here/,
    ],
    [[{ ...UNIT, image, control_mode: 3 }], /control_mode 3: it can be 0 to 2/],
    [[{ ...UNIT, image, control_mode: 2 }], /control_mode than 0, 'Balanced': only Stable/],
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

Deno.test("GET /controlnet/model_list, module_list, control_types and version tell WebUI's clients what there is", async () => {
  await using service = await testService({ engine: steered() });
  await using plain = await testService();
  const lists = async (server: typeof plain) =>
    (await (await server.get("/controlnet/model_list")).json()).model_list;
  assert.deepEqual([await lists(service), await lists(plain)], [["union"], []]);
  const modules = await (await service.get("/controlnet/module_list")).json();
  assert.deepEqual(modules, { module_list: ["none", "canny"] });
  assert.equal((await (await service.get("/controlnet/version")).json()).version, 2);
  const { control_types: types } = await (await service.get("/controlnet/control_types")).json();
  assert.deepEqual(types, {
    All: {
      ...{ module_list: ["none", "canny"], model_list: ["None", "union"] },
      ...{ default_option: "none", default_model: "None" },
    },
    Canny: {
      ...{ module_list: ["none", "canny"], model_list: ["None", "union"] },
      ...{ default_option: "canny", default_model: "union" },
    },
  });
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
    assert.equal(service.engine.requests.at(-1)!.controlMode?.[0], mode);
  }
});
