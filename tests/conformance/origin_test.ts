/** Pages of other origins, and names that are not this server's: nothing that they send changes anything. */

import { strict as assert } from "node:assert";
import { startServer } from "../../server/serve.ts";
import { origins, type ServerSettings } from "../../server/settings.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { isErrorBody, type TestService, testService } from "../fakes/service.ts";

const EVIL = "https://evil.example";

/** The least body of each type that a page can send without being asked for it beforehand. */
const BODIES: Readonly<Record<string, string>> = {
  "text/plain": '{"prompt":"x","lora_nickname":"x","lora_path":"x"}',
  "application/x-www-form-urlencoded": "prompt=x&size=64x64",
  "multipart/form-data; boundary=b":
    '--b\r\ncontent-disposition: form-data; name="prompt"\r\n\r\nx\r\n--b--\r\n',
  "application/json": '{"prompt":"x"}',
};

/** Every route that is mounted with a method that changes something. */
function changingRoutes({ app }: TestService): [method: string, path: string][] {
  const routes = app.routes.filter(({ method }) => ["POST", "PUT", "DELETE"].includes(method));
  return routes.map(({ method, path }) => [method, path.replace(/:\w+/g, "video_1")]);
}

async function statusOf(response: Response, path = ""): Promise<number> {
  const body = await response.json();
  if (response.status === 403 && path.startsWith("/sdapi/")) {
    // In the shape of the program whose routes these are.
    assert.ok(typeof body.detail === "string" && typeof body.errors === "string");
  } else if (response.status === 403) {
    assert.ok(isErrorBody(body));
    assert.match(body.error.code, /^foreign_/);
  }
  return response.status;
}

Deno.test("every route that changes something refuses pages of other origins, in any content type", async () => {
  await using service = await testService();
  const routes = changingRoutes(service);
  assert.ok(routes.length >= 8, `${routes.length} routes`);
  const senders = [
    { origin: EVIL },
    { origin: "null" },
    { origin: "http://localhost.evil.example" },
    { origin: "http://localhost:1@evil.example" },
    { origin: EVIL, "sec-fetch-site": "same-origin" },
    { "sec-fetch-site": "cross-site" },
  ];
  for (const [method, path] of routes) {
    for (const [type, body] of Object.entries(BODIES)) {
      for (const sender of senders) {
        const headers = { ...sender, "content-type": type } as Record<string, string>;
        const response = await service.get(path, { method, body, headers });
        const status = await statusOf(response, path);
        assert.equal(status, 403, `${method} ${path} ${JSON.stringify(headers)}`);
      }
    }
  }
  assert.deepEqual(await service.store.list({}), []);
});

Deno.test("programs, the server's own pages and pages of this machine are not refused", async () => {
  await using service = await testService();
  const senders: Record<string, string>[] = [
    {},
    { origin: "http://localhost" },
    { origin: "http://127.0.0.1:5173", "sec-fetch-site": "cross-site" },
    { origin: "https://denoise.example", host: "denoise.example" },
    { origin: "http://denoise.example:8080", host: "Denoise.Example:8080" },
    { "sec-fetch-site": "same-origin" },
    { "sec-fetch-site": "none" },
  ];
  for (const headers of senders) {
    const response = await service.post("/v1/videos/video_1/cancel", {}, { headers });
    assert.equal(await statusOf(response), 404, JSON.stringify(headers));
  }
});

Deno.test("--cors-origin lets pages in, one origin or all", async () => {
  const settings = [[[EVIL], [404, 403]], [[`${EVIL}/`], [404, 403]], [["*"], [404, 404]]] as const;
  for (const [corsOrigins, expected] of settings) {
    await using service = await testService({ settings: { corsOrigins } });
    const headers = { origin: EVIL, "sec-fetch-site": "cross-site" };
    const post = (headers: Record<string, string>) =>
      service.post("/v1/videos/video_1/cancel", {}, { headers });
    const statuses = [await post(headers), await post({ origin: "https://other.example" })];
    assert.deepEqual(await Promise.all(statuses.map((response) => statusOf(response))), expected);
  }
});

Deno.test("with keys, a foreign page is refused even with the right one", async () => {
  await using service = await testService({ settings: { apiKeys: ["key"] } });
  const headers = { authorization: "Bearer key", origin: EVIL };
  assert.equal(await statusOf(await service.post("/v1/videos/v/cancel", {}, { headers })), 403);
});

/** Statuses of requests with these Host headers, over the wire. */
async function hosts(
  sent: readonly string[],
  host: string,
  settings: Partial<ServerSettings> = {},
): Promise<number[]> {
  const openEngine = () => Promise.resolve(new FakeEngine());
  const server = await startServer({ openEngine, port: 0, outputPath: "", host, ...settings });
  const statuses: number[] = [];
  try {
    for (const header of sent) {
      using connection = await Deno.connect({ hostname: "127.0.0.1", port: server.port });
      const head = `GET /liveness HTTP/1.1\r\n${header}\r\nconnection: close\r\n\r\n`;
      await connection.write(new TextEncoder().encode(head));
      const answer = await new Response(connection.readable).text();
      statuses.push(Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]));
    }
  } finally {
    await server.close();
  }
  return statuses;
}

Deno.test("a server on loopback answers to its own names only", async () => {
  const ours = ["Host: 127.0.0.1", "Host: localhost:1", "host: [::1]:8080", "HOST: LOCALHOST"];
  const others = ["Host: evil.example", "Host: localhost.evil.example:30000", "Host: 192.168.0.7"];
  assert.deepEqual(await hosts(ours, "127.0.0.1"), [200, 200, 200, 200]);
  assert.deepEqual(await hosts(others, "127.0.0.1"), [403, 403, 403]);
  const two = ["Host: 127.0.0.1\r\nHost: evil.example", "Host: a b", "Host: "];
  assert.deepEqual(await hosts(two, "127.0.0.1"), [400, 400, 400]);
});

Deno.test("--allowed-host lets names in; on other addresses it shuts the rest out", async () => {
  const sent = ["Host: a.example", "Host: b.example", "Host: localhost"];
  const allow = (...allowedHosts: string[]) => ({ allowedHosts });
  assert.deepEqual(await hosts(sent, "127.0.0.1", allow("A.example")), [200, 403, 200]);
  assert.deepEqual(await hosts(sent, "127.0.0.1", allow("*")), [200, 200, 200]);
  assert.deepEqual(await hosts(sent, "0.0.0.0"), [200, 200, 200]);
  assert.deepEqual(await hosts(sent, "0.0.0.0", allow("a.example")), [200, 403, 200]);
});

Deno.test("a page that is refused is advised nothing that the flag does not take", async () => {
  await using service = await testService();
  for (const origin of [EVIL, "app://obsidian.md", "null"]) {
    const headers = { origin, "content-type": "application/json" };
    const body = '{"prompt":"x"}';
    const response = await service.get("/v1/images/generations", { method: "POST", body, headers });
    const { error } = await response.json();
    const [, advised] = /--cors-origin (\S+)/.exec(error.message) ?? [];
    assert.equal(advised, origin === "null" ? undefined : origin);
    if (advised !== undefined) assert.deepEqual(origins(advised, []), [advised]);
  }
});
