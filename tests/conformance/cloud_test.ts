/** Results in a bucket, as clients see them. */

import { strict as assert } from "node:assert";
import { S3Storage } from "../../server/storage/s3.ts";
import { FakeS3 } from "../fakes/s3.ts";
import { testService, until } from "../fakes/service.ts";

const BUCKET = { bucket: "results", region: "r1", accessKeyId: "id", secretAccessKey: "secret" };

/** What a client gets who opens a link in a browser: it has no key of ours, and none of the store's. */
async function open(link: string): Promise<Uint8Array> {
  const response = await fetch(link);
  const bytes = await response.bytes();
  assert.equal(response.status, 200, new TextDecoder().decode(bytes.subarray(0, 300)));
  return bytes;
}

/** A service whose results go to a store. */
function cloudService(store: FakeS3) {
  return testService({
    storage: (local) => new S3Storage({ ...BUCKET, endpoint: store.endpoint }, local, () => {}),
  });
}

Deno.test("POST /v1/images/generations gives links to a private bucket that work, and so does content", async () => {
  await using store = new FakeS3(BUCKET);
  await using service = await cloudService(store);
  const body = { prompt: "a", n: 2, output_format: "png" };
  const { id, data } = await (await service.post("/v1/images/generations", body)).json();
  const stored = store.objects.get(`${id}_1.png`)!.bytes;
  assert.ok(data[1].url.startsWith(`${store.endpoint}/results/${id}_1.png?`));
  assert.deepEqual(await open(data[1].url), stored);
  await assert.rejects(open(data[1].url.split("?")[0]), /AccessDenied/);
  assert.equal(data[1].file_path, null);
  const content = await service.get(`/v1/images/${id}/content?variant=1`);
  assert.equal(content.status, 307);
  assert.ok(content.headers.get("x-request-id"));
  const file = await fetch(content.headers.get("location")!);
  assert.equal(file.headers.get("content-type"), "image/png");
  assert.deepEqual(await file.bytes(), stored);
});

Deno.test("GET /v1/videos gives links that work, and DELETE removes the file from the bucket", async () => {
  await using store = new FakeS3(BUCKET);
  await using service = await cloudService(store);
  const { id, url } = await (await service.post("/v1/videos", { prompt: "a" })).json();
  assert.equal(url, null);
  await until(async () => (await service.store.get(id))?.status === "completed");
  const { data: [record] } = await (await service.get("/v1/videos")).json();
  assert.deepEqual(await open(record.url), store.objects.get(`${id}.mp4`)!.bytes);
  const content = await service.get(`/v1/videos/${id}/content`);
  assert.equal(content.status, 307);
  const file = await fetch(content.headers.get("location")!);
  assert.equal(file.headers.get("content-type"), "video/mp4");
  assert.equal((await file.bytes()).length, store.objects.get(`${id}.mp4`)!.bytes.length);
  await service.get(`/v1/videos/${id}`, { method: "DELETE" });
  assert.equal(store.objects.size, 0);
});

Deno.test("GET /v1/images/{id}/content serves what the bucket did not take", async () => {
  await using store = new FakeS3(BUCKET);
  store.trouble = () => ({ status: 403 });
  await using service = await cloudService(store);
  const response = await service.post("/v1/images/generations", { prompt: "a" });
  const { id, data: [item] } = await response.json();
  assert.equal(item.url, `/v1/images/${id}/content`);
  assert.equal((await service.get(item.url)).status, 200);
});
