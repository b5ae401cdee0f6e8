import assert from "node:assert/strict";
import { fetchRemote, parseRemoteUrl, RemoteError, type RemotePolicy } from "./remote.ts";

const POLICY: RemotePolicy = {
  allowPrivate: true,
  maxBytes: 1000,
  media: ["image"],
};

/** Serves `answer` while `use` runs. */
async function withServer(
  answer: (request: Request, count: number) => Response | Promise<Response>,
  use: (base: string) => Promise<void>,
): Promise<void> {
  let count = 0;
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => answer(request, ++count),
  );
  try {
    await use(`http://127.0.0.1:${server.addr.port}`);
  } finally {
    await server.shutdown();
  }
}

const png = (bytes = 5, headers = { "content-type": "image/png" }) =>
  new Response(new Uint8Array(bytes), { headers });

Deno.test("fetchRemote() gives bytes and name", () =>
  withServer(() => png(), async (base) => {
    const file = await fetchRemote(`${base}/some/a%20cat.png?x=1`, POLICY);
    assert.deepEqual(file, {
      bytes: new Uint8Array(5),
      name: "a cat.png",
    });
  }));

Deno.test("fetchRemote() follows five redirects and not six", () =>
  withServer((request) => {
    const left = Number(new URL(request.url).pathname.slice(1));
    return left === 0
      ? png()
      : new Response(null, { status: 302, headers: { location: `/${left - 1}` } });
  }, async (base) => {
    assert.equal((await fetchRemote(`${base}/5`, POLICY)).bytes.length, 5);
    await assert.rejects(fetchRemote(`${base}/6`, POLICY), /more than 5 redirects/);
  }));

Deno.test("fetchRemote() tries again after a server's failure, three times in all", () =>
  withServer(
    (request, count) =>
      request.url.endsWith("never") || count < 3 ? new Response("busy", { status: 503 }) : png(),
    async (base) => {
      assert.equal((await fetchRemote(`${base}/soon`, POLICY)).bytes.length, 5);
      await assert.rejects(fetchRemote(`${base}/never`, POLICY), /answered with status 503/);
    },
  ));

Deno.test("fetchRemote() refuses what is too long, of another type, or missing", () =>
  withServer((request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/long") return png(1001);
    if (pathname === "/chunked") {
      const stream = new ReadableStream({
        pull: (controller) => controller.enqueue(new Uint8Array(100)),
      });
      return new Response(stream, { headers: { "content-type": "image/png" } });
    }
    if (pathname.startsWith("/as/")) return png(3, { "content-type": pathname.slice(4) });
    if (pathname === "/missing") return new Response("", { status: 404 });
    return new Response("<p>", { headers: { "content-type": "text/html" } });
  }, async (base) => {
    await assert.rejects(fetchRemote(`${base}/long`, POLICY), /longer than 1000 bytes/);
    await assert.rejects(fetchRemote(`${base}/chunked`, POLICY), /longer than 1000 bytes/);
    await assert.rejects(fetchRemote(`${base}/page`, POLICY), /content type 'text\/html'/);
    await assert.rejects(fetchRemote(`${base}/missing`, POLICY), /status 404/);
    for (
      const type of [
        ...["application/octet-stream", "binary/octet-stream", "image/jpg", "image/x-png", ""],
        ...["IMAGE/PNG; charset=x", "application/mp4"],
      ]
    ) {
      assert.equal((await fetchRemote(`${base}/as/${type}`, POLICY)).bytes.length, 3, type);
    }
    for (const type of ["text/plain", "application/json", "video/mp4"]) {
      await assert.rejects(fetchRemote(`${base}/as/${type}`, POLICY), /content type/, type);
    }
  }));

Deno.test("fetchRemote() speaks to public addresses only, names and redirects included", () =>
  withServer(() => png(), async (base) => {
    const strict = { ...POLICY, allowPrivate: false };
    const { port } = new URL(base);
    const refused = [
      base,
      `http://localhost:${port}/`,
      `http://2130706433:${port}/`,
      `http://0x7f.1:${port}/`,
      `http://[::ffff:127.0.0.1]:${port}/`,
      "http://169.254.169.254/latest/meta-data",
    ];
    for (const url of refused) {
      await assert.rejects(
        fetchRemote(url, strict),
        /its address is not public; a server with --allow-private-urls/,
        url,
      );
    }
  }));

Deno.test("fetchRemote() refuses other schemes and credentials", async () => {
  for (
    const url of ["file:///etc/passwd", "ftp://a/b", "gopher://a", "http://u:p@host/", "nonsense"]
  ) {
    await assert.rejects(fetchRemote(url, POLICY), RemoteError, url);
  }
});

Deno.test("fetchRemote() gives up after so long altogether, and when its client leaves", () =>
  withServer(() => new Response("busy", { status: 503 }), async (base) => {
    await assert.rejects(fetchRemote(base, { ...POLICY, maxMs: 50 }), {
      name: "RemoteError",
      message: "it did not come within 0.05 s",
    });
    await assert.rejects(fetchRemote(base, POLICY, AbortSignal.abort()), { name: "AbortError" });
  }));

Deno.test("parseRemoteUrl() refuses an address of any length at once", () => {
  assert.equal(parseRemoteUrl(`http://a.example/${"a".repeat(8000)}`).hostname, "a.example");
  for (const pump of ["a.", "ü.", "%2e./", "@"]) {
    const start = performance.now();
    assert.throws(() => parseRemoteUrl(`http://${pump.repeat(1e6)}`), /at most 8192 are allowed/);
    assert.ok(performance.now() - start < 100, pump);
  }
});
