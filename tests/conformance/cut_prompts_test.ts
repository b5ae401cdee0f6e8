/** Prompts that are longer than the text encoder reads. */
import { strict as assert } from "node:assert";
import { FakeEngine } from "../fakes/engine.ts";
import { testService, until } from "../fakes/service.ts";

const CUT = { prompt: "prompt", tokens: 645, read: 512, unread: "on a blue ground" } as const;

Deno.test("a prompt that is read in part is told of in the header, the answer, the job and the video", async () => {
  await using service = await testService({ engine: new FakeEngine({ cutPrompts: [CUT] }) });
  const answer = await service.post("/v1/images/generations", { prompt: "a" });
  assert.equal(answer.headers.get("x-cut-prompts"), "prompt; tokens=645; read=512");
  const image = await answer.json();
  assert.deepEqual(image.cut_prompts, [CUT]);
  assert.deepEqual((await (await service.get(`/v1/jobs/${image.id}`)).json()).cut_prompts, [CUT]);
  const webui = await service.post("/sdapi/v1/txt2img", { prompt: "a" });
  assert.equal(webui.headers.get("x-cut-prompts"), "prompt; tokens=645; read=512");
  const { id } = await (await service.post("/v1/videos", { prompt: "a", num_frames: 5 })).json();
  await until(async () => (await service.store.get(id))?.status === "completed");
  assert.deepEqual((await (await service.get(`/v1/videos/${id}`)).json()).cut_prompts, [CUT]);
});

Deno.test("a prompt that is read as a whole is not mentioned", async () => {
  await using service = await testService();
  const answer = await service.post("/v1/images/generations", { prompt: "a" });
  assert.equal(answer.headers.get("x-cut-prompts"), null);
  assert.ok(!("cut_prompts" in await answer.json()));
});
