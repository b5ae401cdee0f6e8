import assert from "node:assert/strict";
import { encodeImage } from "../../media/encode.ts";
import { SettingError } from "../../models/setting_error.ts";
import { OutOfMemoryError } from "../../runtime/errors.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { isErrorBody, type TestService, testService } from "../fakes/service.ts";

const TOO_LARGE =
  "Cannot make 256x256 with 81 frames: it needs 35 MB on the device, 30 MB may be " +
  "taken; allow more memory, or ask for a smaller size or fewer frames";

const full = () =>
  new FakeEngine({
    roomFailure: new OutOfMemoryError(`${TOO_LARGE}\nstage  together\n`, 35e6, 30e6),
    info: { supportedTasks: ["T2V", "T2I", "TI2I", "I2V"], maxImages: 1 },
  });

async function refused(
  testee: TestService,
  answer: Response,
): Promise<{ message: string; param: string }> {
  const body = await answer.json();
  assert.equal(answer.status, 400, JSON.stringify(body));
  assert.ok(isErrorBody(body));
  assert.deepEqual(testee.engine.requests, []);
  assert.deepEqual(await testee.store.list({ limit: 10, order: "asc" }), []);
  return body.error;
}

for (const path of ["/v1/videos", "/v1/images/generations"]) {
  Deno.test(`POST ${path} makes no job of what has no room, and says why`, async () => {
    await using testee = await testService({ engine: full() });
    const body = { prompt: "a", size: "256x256", num_inference_steps: 3 };
    const { message, param } = await refused(testee, await testee.post(path, body));
    assert.deepEqual([message, param], [TOO_LARGE, "size"]);
    const [checked] = testee.engine.checked;
    assert.deepEqual([checked!.width, checked!.numInferenceSteps], [256, 3]);
  });
}

Deno.test("a refusal of the model names the field that it is about, in the words of HTTP", async () => {
  const cases = [
    ["maxSequenceLength", "max_sequence_length", { max_sequence_length: 7 }],
    ["numInferenceSteps", "num_inference_steps", { num_inference_steps: 9 }],
    ["numFrames", "num_frames", { num_frames: 9 }],
    ["stgBlocks", "stg_blocks", { stg_blocks: [99] }],
    ["stgBlocks", "spatio_temporal_guidance_blocks", { spatio_temporal_guidance_blocks: [99] }],
  ] as const;
  for (const [setting, param, fields] of cases) {
    const roomFailure = new SettingError(setting, `Cannot use ${setting}: it is wrong`);
    const engine = new FakeEngine({
      roomFailure,
      info: { optionalSettings: ["maxSequenceLength", "stgBlocks"] },
    });
    await using testee = await testService({ engine });
    const answer = await testee.post("/v1/videos", { prompt: "a", ...fields });
    const { message, param: named } = await refused(testee, answer);
    const isSetting = setting !== "numFrames";
    assert.deepEqual([message, named], [
      `Cannot use ${isSetting ? param : setting}: it is wrong`,
      param,
    ]);
    const checked = testee.engine.checked[0]! as unknown as Record<string, unknown>;
    assert.deepEqual(checked[setting], Object.values(fields)[0]);
  }
});

Deno.test("POST /v1/images/edits makes no job of what has no room", async () => {
  await using testee = await testService({ engine: full() });
  const image = { width: 16, height: 16, data: new Uint8Array(16 * 16 * 3) };
  const { bytes } = await encodeImage(image, { format: "png" });
  const body = new FormData();
  body.set("prompt", "a");
  body.set("image", new Blob([bytes]), "a.png");
  const answer = await testee.get("/v1/images/edits", { method: "POST", body });
  assert.equal((await refused(testee, answer)).message, TOO_LARGE);
  assert.equal(testee.engine.checked[0]!.images, 1);
});

Deno.test("POST /v1/videos checks the frames that it would make", async () => {
  await using testee = await testService();
  const body = { prompt: "a", size: "64x48", num_frames: 14 };
  assert.equal((await testee.post("/v1/videos", body)).status, 200);
  const { width, numFrames, taskType } = testee.engine.checked[0]!;
  assert.deepEqual([width, numFrames, taskType], [64, 13, "T2V"]);
});
