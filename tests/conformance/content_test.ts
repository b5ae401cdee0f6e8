import { strict as assert } from "node:assert";
import { FakeEngine } from "../fakes/engine.ts";
import { isErrorBody, type TestService, testService, until } from "../fakes/service.ts";

/** Makes one PNG; its path in the service and its bytes. */
async function oneImage(service: TestService) {
  const body = { prompt: "a", output_format: "png" };
  const { id, data } = await (await service.post("/v1/images/generations", body)).json();
  const bytes = await Deno.readFile(data[0].file_path);
  return { id: id as string, url: data[0].url as string, bytes, path: data[0].file_path as string };
}

Deno.test("GET …/content gives bytes, type, length, name and a validator", async () => {
  await using service = await testService();
  const { id, url, bytes } = await oneImage(service);
  const response = await service.get(url);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "image/png");
  assert.equal(response.headers.get("content-length"), String(bytes.length));
  assert.equal(response.headers.get("accept-ranges"), "bytes");
  assert.equal(response.headers.get("content-disposition"), `attachment; filename="${id}.png"`);
  assert.match(response.headers.get("etag")!, /^"[0-9a-f]{32}"$/);
  assert.ok(Date.parse(response.headers.get("last-modified")!) > 0);
  assert.deepEqual(await response.bytes(), bytes);
});

Deno.test("HEAD …/content gives the headers alone", async () => {
  await using service = await testService();
  const { url, bytes } = await oneImage(service);
  const response = await service.get(url, { method: "HEAD" });
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-length"), String(bytes.length));
  assert.equal((await response.bytes()).length, 0);
});

Deno.test("GET …/content gives ranges, and 416 beyond the file", async () => {
  await using service = await testService();
  const { url, bytes } = await oneImage(service);
  const size = bytes.length;
  const cases: [range: string, start: number, end: number][] = [
    ["bytes=0-1", 0, 1],
    ["bytes=10-", 10, size - 1],
    ["bytes=-5", size - 5, size - 1],
    [`bytes=${size - 1}-${size + 100}`, size - 1, size - 1],
  ];
  for (const [range, start, end] of cases) {
    const response = await service.get(url, { headers: { range } });
    assert.equal(response.status, 206, range);
    assert.equal(response.headers.get("content-range"), `bytes ${start}-${end}/${size}`);
    assert.equal(response.headers.get("content-length"), String(end - start + 1));
    assert.deepEqual(await response.bytes(), bytes.subarray(start, end + 1));
  }
  const beyond = await service.get(url, { headers: { range: `bytes=${size}-` } });
  assert.equal(beyond.status, 416);
  assert.equal(beyond.headers.get("content-range"), `bytes */${size}`);
  assert.ok(isErrorBody(await beyond.json()));
});

Deno.test("GET …/content knows what the client has already", async () => {
  await using service = await testService();
  const { url, bytes } = await oneImage(service);
  const head = await service.get(url, { method: "HEAD" });
  const etag = head.headers.get("etag")!;
  for (const known of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
    const response = await service.get(url, { headers: { "if-none-match": known } });
    assert.equal(response.status, 304, known);
    assert.equal((await response.bytes()).length, 0);
  }
  const modified = Date.parse(head.headers.get("last-modified")!);
  for (const [since, status] of [[0, 304], [5000, 304], [-1000, 200], [NaN, 200]] as const) {
    const date = Number.isNaN(since) ? "soon" : new Date(modified + since).toUTCString();
    const response = await service.get(url, { headers: { "if-modified-since": date } });
    assert.equal(response.status, status, date);
    await response.body?.cancel();
    const named = { "if-modified-since": date, "if-none-match": '"other"' };
    const other = await service.get(url, { headers: named });
    assert.equal(other.status, 200, "a validator wins over a date");
    await other.body?.cancel();
  }
  const range = "bytes=0-1";
  const same = await service.get(url, { headers: { range, "if-range": etag } });
  assert.equal((await same.bytes()).length, 2);
  const changed = await service.get(url, { headers: { range, "if-range": '"other"' } });
  assert.equal(changed.status, 200);
  assert.equal((await changed.bytes()).length, bytes.length);
});

Deno.test("GET …/content refuses variants that there are not", async () => {
  await using service = await testService();
  const { url } = await oneImage(service);
  for (const variant of ["1", "-1", "x", "0.5", "99999", ""]) {
    const response = await service.get(`${url}?variant=${variant}`);
    assert.equal(response.status, 404, variant);
    assert.equal((await response.json()).detail, `Image variant ${variant} not found`);
  }
  const first = await service.get(`${url}?variant=0`);
  assert.equal(first.status, 200);
  await first.body?.cancel();
});

Deno.test("GET …/content of work under way, of failed work and of removed files is 404", async () => {
  const engine = new FakeEngine({ stepMs: 150 });
  await using service = await testService({ engine });
  const answer = service.post("/v1/images/generations", { prompt: "a" });
  await until(() => service.queue.running.length > 0);
  const detail = async (id: string) => {
    const response = await service.get(`/v1/images/${id}/content`);
    assert.equal(response.status, 404);
    return (await response.json()).detail;
  };
  assert.equal(await detail(service.queue.running[0]!), "Image is still being generated");
  await (await answer).body?.cancel();

  const { id, path } = await oneImage(service);
  await Deno.remove(path);
  assert.equal(await detail(id), "Image not found: its file was removed");
});
