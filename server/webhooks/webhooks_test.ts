import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { testService, until } from "../../tests/fakes/service.ts";
import { readSecret, signature, Webhooks } from "./webhooks.ts";

const SECRET = `whsec_${new Uint8Array(32).fill(7).toBase64()}`;

/** A client's server, which answers with the statuses in turn. */
function receiver(statuses: number[]) {
  const got: { headers: Headers; text: string }[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    got.push({ headers: request.headers, text: await request.text() });
    const headers = { location: "http://127.0.0.1:1/" };
    return new Response(null, { status: statuses.shift() ?? 204, headers });
  });
  return {
    got,
    url: `http://127.0.0.1:${server.addr.port}/hook?a=1`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

Deno.test("readSecret() takes what the standard takes, and repeats nothing else", () => {
  assert.deepEqual(readSecret(SECRET), new Uint8Array(32).fill(7));
  for (const text of ["", "whsec_", "whsec_!!!!", "secret", `whsec_${btoa("short")}`]) {
    assert.throws(() => readSecret(text), (error: Error) => {
      assert.ok(error instanceof TypeError);
      return text.length < 8 || !error.message.includes(text);
    });
  }
});

Deno.test("signature() is that of the standard's example", () => {
  // Source: the test vectors of the standard's libraries.
  const secret = readSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
  const message = {
    id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
    timestamp: 1614265330,
    body: '{"test": 2432232314}',
  };
  assert.equal(signature(secret, message), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
});

Deno.test("Webhooks.send() tries again with the same id, and gives up in the end", async () => {
  await using taken = receiver([500, 302]);
  const lines: string[] = [];
  const options = {
    secret: readSecret(SECRET),
    allowPrivate: true,
    log: (line: string) => void lines.push(line),
    pausesMs: [1, 1],
  };
  const webhooks = new Webhooks(options);
  const message = () => Promise.resolve({ type: "job.completed", data: { a: 1 } });
  const send = (url: string, by = webhooks) => by.send("job-1", { url, client: "a" }, message);
  assert.equal(await send(taken.url), true);
  assert.deepEqual(
    taken.got.map(({ headers }) => headers.get("webhook-id")),
    Array(3).fill("job-1"),
  );
  await using refused = receiver([500, 500, 500, 500]);
  assert.equal(await send(refused.url), false);
  assert.equal(refused.got.length, 3);
  assert.match(lines.join(), /Gave up the webhook job-1: its server answered with status 500/);
  await using gone = receiver([410]);
  assert.equal(await send(gone.url), false);
  assert.equal(gone.got.length, 1);
  const shy = new Webhooks({ ...options, allowPrivate: false });
  assert.equal(await send(gone.url, shy), false);
  assert.equal(gone.got.length, 1, "addresses of this machine are not spoken to");
});

Deno.test("Webhooks.send() lets no client and no silent receiver hold back others, and bounds what waits", async () => {
  await using heard = receiver([]);
  const silent = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const lines: string[] = [];
  const webhooks = new Webhooks({
    ...{ secret: readSecret(SECRET), allowPrivate: true },
    log: (line: string) => void lines.push(line),
  });
  const url = `http://127.0.0.1:${silent.addr.port}/`;
  let isRead = 0;
  const message = () => {
    isRead++;
    return Promise.resolve({ type: "job.completed", data: {} });
  };
  const held = Array.from(
    { length: 1001 },
    (_, i) => webhooks.send(`job-${i}`, { url, client: "a" }, message),
  );
  assert.equal(await held[1000], false);
  assert.deepEqual(lines, ["Gave up the webhook job-1000: 1000 of its client are not taken yet"]);
  const start = performance.now();
  for (const client of ["b", "a"]) {
    assert.equal(await webhooks.send("other", { url: heard.url, client }, message), client === "b");
  }
  assert.ok(performance.now() - start < 5000);
  assert.equal(heard.got.length, 1);
  assert.ok(isRead <= 3, `${isRead} messages are in memory`);
  webhooks.close();
  silent.close();
  assert.deepEqual(new Set(await Promise.all(held)), new Set([false]));
});

Deno.test("Webhooks.send() lets a client's silent receiver hold back none of its others", async () => {
  await using heard = receiver([]);
  const silent = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const webhooks = new Webhooks({
    ...{ secret: readSecret(SECRET), allowPrivate: true, log: () => {} },
  });
  const url = `http://127.0.0.1:${silent.addr.port}/`;
  const message = () => Promise.resolve({ type: "job.completed", data: {} });
  const held = Array.from({ length: 20 }, () => webhooks.send("a", { url, client: "a" }, message));
  assert.equal(await webhooks.send("a", { url: heard.url, client: "a" }, message), true);
  const gone = await webhooks.send("a", { url, client: "b" }, () => Promise.resolve(undefined));
  assert.equal(gone, false, "a job that was deleted is of no use");
  webhooks.close();
  silent.close();
  await Promise.all(held);
});

Deno.test("webhook_url of an image or a video is told its end, signed", async () => {
  await using receives = receiver([]);
  await using service = await testService({
    settings: { webhookSecret: SECRET, allowPrivateUrls: true },
  });
  const body = { prompt: "a", num_inference_steps: 1, webhook_url: receives.url };
  const headers = { prefer: "respond-async" };
  const image = await (await service.post("/v1/images/generations", body, { headers })).json();
  await until(() => receives.got.length === 1);
  const [{ headers: sent, text }] = receives.got as [{ headers: Headers; text: string }];
  const { type, timestamp, data } = JSON.parse(text);
  assert.deepEqual([type, data.id, data.status], ["job.completed", image.id, "completed"]);
  assert.equal(data.outputs.length, 1);
  assert.ok(Math.abs(Date.parse(timestamp) - Date.now()) < 60_000);
  const signed = `${sent.get("webhook-id")}.${sent.get("webhook-timestamp")}.${text}`;
  const expected = createHmac("sha256", readSecret(SECRET)).update(signed).digest("base64");
  assert.equal(sent.get("webhook-signature"), `v1,${expected}`);
  await (await service.post("/v1/videos", body)).body?.cancel();
  await until(() => receives.got.length === 2);
  assert.match(JSON.parse(receives.got[1]!.text).data.id, /^video_/);
});

Deno.test("webhook_url is refused where nobody signs, and where it leads to a private network", async () => {
  const refusal = async (settings: object, url: string) => {
    await using service = await testService({ settings });
    const body = { prompt: "a", webhook_url: url };
    const response = await service.post("/v1/images/generations", body);
    assert.equal(response.status, 400);
    const { error } = await response.json();
    assert.equal(error.param, "webhook_url");
    return error.message;
  };
  assert.match(await refusal({}, "https://example.com/"), /DENOISE_WEBHOOK_SECRET/);
  const settings = { webhookSecret: SECRET };
  assert.match(await refusal(settings, "http://127.0.0.1/"), /its address is not public/);
  assert.match(await refusal(settings, "file:///etc/passwd"), /use http or https/);
  assert.match(await refusal(settings, "http://a:b@example.com/"), /must not hold credentials/);
});
