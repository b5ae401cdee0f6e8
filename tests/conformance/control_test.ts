import assert from "node:assert/strict";
import { encodeImage } from "../../media/encode.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { testService } from "../fakes/service.ts";

const [GENERATIONS, EDITS] = ["/v1/images/generations", "/v1/images/edits"];

const steered = () =>
  new FakeEngine({
    info: {
      ...{ taskType: "T2I", supportedTaskTypes: ["T2I", "TI2I"] },
      optionalParts: ["controlnet"],
      optionalSettings: [
        "controlScale",
        "controlStart",
        "controlEnd",
        "controlMode",
        "controlType",
      ],
      controlModes: ["canny", "pose"],
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
    [{ control: broken, control_mode: "pose" }, "control", /Failed to process image source/],
    [
      { control: "https://10.0.0.1/a.png", control_mode: "pose" },
      "control",
      /its address is not public/,
    ],
    [{ control }, "control_mode", /must say what the control picture shows, one of canny, pose/],
    [{ control, control_mode: "depth" }, "control_mode", /one of canny, pose, got depth/],
    [{ control, control_end: 2 }, "control_end", /must be from 0 to 1, got 2/],
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
