import { strict as assert } from "node:assert";
import { Buffer } from "node:buffer";
import { decodeImage } from "../../media/decode.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { isErrorBody, testService, until } from "../fakes/service.ts";

const PATH = "/v1/images/generations";

/** The events of a stream: name and data. */
function readEvents(text: string): { event: string; data: Record<string, unknown> }[] {
  return text.split("\n\n").filter((block) => block.startsWith("event:")).map((block) => {
    const fields = new Map(
      block.split("\n").map((line) => {
        const colon = line.indexOf(": ");
        return [line.slice(0, colon), line.slice(colon + 2)];
      }),
    );
    return { event: fields.get("event")!, data: JSON.parse(fields.get("data")!) };
  });
}

Deno.test(`POST ${PATH} with stream gives one event for each image`, async () => {
  await using service = await testService();
  const body = { prompt: "a", n: 2, stream: true, output_format: "png" };
  const response = await service.post(PATH, body);
  assert.equal(response.status, 200);
  assert.match(response.headers.get("content-type")!, /^text\/event-stream/);
  const events = readEvents(await response.text());
  assert.deepEqual(events.map(({ event }) => event), [
    "image_generation.completed",
    "image_generation.completed",
  ]);
  for (const { event, data } of events) {
    assert.equal(data["type"], event);
    assert.equal(data["output_format"], "png");
    assert.equal(data["size"], "64x48");
    assert.deepEqual([data["quality"], data["background"], data["usage"]], [
      "auto",
      "opaque",
      null,
    ]);
    const bytes = new Uint8Array(Buffer.from(String(data["b64_json"]), "base64"));
    assert.equal((await decodeImage(bytes)).width, 64);
  }
});

Deno.test(`POST ${PATH} with stream refuses with a status what it can refuse up front`, async () => {
  await using service = await testService();
  assert.equal((await service.post(PATH, { prompt: "", stream: true })).status, 400);
  await service.queue.close(0);
  assert.equal((await service.post(PATH, { prompt: "a", stream: true })).status, 503);
});

Deno.test(`POST ${PATH} with stream tells of a failure in an event`, async () => {
  const engine = new FakeEngine({ failure: new Error("secret") });
  await using service = await testService({ engine });
  const response = await service.post(PATH, { prompt: "a", stream: true });
  const [only, ...more] = readEvents(await response.text());
  assert.equal(more.length, 0);
  assert.equal(only!.event, "error");
  assert.ok(isErrorBody(only!.data));
  assert.ok(!JSON.stringify(only).includes("secret"));
});

Deno.test(`POST ${PATH} with stream stops the work when nobody reads any more`, async () => {
  const engine = new FakeEngine({ stepMs: 20 });
  await using service = await testService({ engine });
  const body = { prompt: "a", stream: true, num_inference_steps: 50 };
  const response = await service.post(PATH, body);
  await until(() => service.queue.running.length > 0);
  const id = service.queue.running[0]!;
  await response.body!.cancel();
  await until(async () => (await service.store.get(id))!.status === "cancelled");
  assert.equal(engine.aborted, 1);
});
