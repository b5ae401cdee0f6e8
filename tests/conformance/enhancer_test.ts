/** Prompts that are rewritten before their jobs' turns. */

import { strict as assert } from "node:assert";
import { ApiError } from "../../server/contract/errors.ts";
import type { PromptEnhancer } from "../../server/prompts/enhancer.ts";
import { testService, until } from "../fakes/service.ts";

const IMAGES = "/v1/images/generations";
const VIDEOS = "/v1/videos";

/** An enhancer that answers when it is told to; what is asked of it is in `asked`. */
function manualEnhancer() {
  const asked: { prompt: string; signal: AbortSignal; answer: (text: string) => void }[] = [];
  const enhancer: PromptEnhancer = {
    enhance: (prompt, _task, signal) => {
      const { promise, resolve, reject } = Promise.withResolvers<string>();
      signal.addEventListener("abort", () => reject(signal.reason));
      asked.push({ prompt, signal, answer: resolve });
      return promise;
    },
  };
  return { asked, enhancer };
}

Deno.test("a prompt enhancer that stalls holds nobody else, and is asked for several at a time", async () => {
  const { asked, enhancer } = manualEnhancer();
  await using service = await testService({ enhancer });
  const bodies = ["first", "second"].map((prompt) => ({ prompt, enhance_prompt: true }));
  const images = bodies.map((body) => service.post(IMAGES, body));
  const video = service.post(VIDEOS, { prompt: "third", enhance_prompt: true });
  await until(() => asked.length === 3);
  assert.equal((await service.post(IMAGES, { prompt: "other" })).status, 200);
  const { running, waiting, data } = await (await service.get("/v1/jobs")).json();
  assert.deepEqual([running, waiting], [0, 3]);
  assert.deepEqual(data.map(({ status }: { status: string }) => status), [
    "queued",
    "queued",
    "queued",
    "completed",
  ]);
  for (const { prompt, answer } of asked.toReversed()) answer(`a fine ${prompt}`);
  for (const [index, image] of images.entries()) {
    const { data: [item] } = await (await image).json();
    assert.equal(item.revised_prompt, `a fine ${bodies[index]!.prompt}`);
  }
  const { id, revised_prompt } = await (await video).json();
  assert.equal(revised_prompt, "a fine third");
  await until(async () => (await service.store.get(id))!.status === "completed");
  assert.ok(service.engine.requests.some(({ prompt }) => prompt === "a fine third"));
});

Deno.test("POST /v1/videos/{id}/cancel ends a video whose prompt is being rewritten", async () => {
  const { asked, enhancer } = manualEnhancer();
  await using service = await testService({ enhancer });
  const created = service.post(VIDEOS, { prompt: "a", enhance_prompt: true });
  await until(() => asked.length === 1);
  const { data: [video] } = await (await service.get(VIDEOS)).json();
  assert.equal(video.status, "queued");
  const path = `${VIDEOS}/${video.id}/cancel`;
  const cancelled = await (await service.get(path, { method: "POST" })).json();
  assert.equal(cancelled.status, "cancelled");
  assert.ok(asked[0]!.signal.aborted, "the language model is not waited for");
  assert.equal((await created).status, 499);
});

Deno.test("a client that leaves while its prompt is rewritten cancels its video and its image", async () => {
  const { asked, enhancer } = manualEnhancer();
  await using service = await testService({ enhancer });
  for (const path of [VIDEOS, IMAGES]) {
    const client = new AbortController();
    const { signal } = client;
    const answer = service.post(path, { prompt: "a", enhance_prompt: true }, { signal });
    const before = asked.length;
    await until(() => asked.length > before);
    client.abort();
    assert.equal((await answer).status, 499, path);
    assert.ok(asked.at(-1)!.signal.aborted, path);
  }
  const { data } = await (await service.get("/v1/jobs")).json();
  assert.deepEqual(data.map(({ status }: { status: string }) => status), [
    "cancelled",
    "cancelled",
  ]);
  assert.equal(service.engine.requests.length, 0);
});

Deno.test("a prompt enhancer that fails is told in the answer, and in the record of images; videos have none then", async () => {
  const failure = new ApiError(504, "Prompt enhancer timed out", {
    code: "prompt_enhancer_failed",
  });
  const enhancer = { enhance: () => Promise.reject(failure) };
  await using service = await testService({ enhancer });
  for (const path of [VIDEOS, IMAGES]) {
    const response = await service.post(path, { prompt: "a", enhance_prompt: true });
    assert.equal(response.status, 504);
    assert.equal((await response.json()).detail, "Prompt enhancer timed out");
  }
  const records = await service.store.list();
  assert.deepEqual(
    records.map(({ kind, status, error }) => [kind, status, error?.code]),
    [["image", "failed", "prompt_enhancer_failed"]],
  );
});
