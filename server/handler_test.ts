import { strict as assert } from "node:assert";
import { createHandler } from "./handler.ts";

Deno.test("createHandler() mounts the service in a server of one's own", async () => {
  const folder = await Deno.makeTempDir();
  const handler = await createHandler({ outputPath: folder, apiKeys: ["secret"] });
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request, { remoteAddr: { hostname } }) =>
      new URL(request.url).pathname === "/own"
        ? new Response("own")
        : handler(request, { remoteAddress: hostname }),
  );
  try {
    await handler.ready;
    const url = `http://127.0.0.1:${server.addr.port}`;
    const ask = (path: string, init: RequestInit = {}) =>
      fetch(url + path, {
        ...init,
        headers: { authorization: "Bearer secret", "content-type": "application/json" },
      });
    assert.equal(await (await fetch(`${url}/own`)).text(), "own");
    assert.equal(
      (await fetch(`${url}/v1/models`).then((all) => (all.body?.cancel(), all))).status,
      401,
    );
    const answer = await ask("/v1/images/generations", {
      method: "POST",
      body: JSON.stringify({ prompt: "a red heart", num_inference_steps: 1 }),
    });
    const { data } = await answer.json();
    assert.equal(Uint8Array.fromBase64(data[0].b64_json)[0], 0xff, "a JPEG");
    assert.equal((await (await ask("/v1/jobs")).json()).data.length, 1);
  } finally {
    await handler.close();
    await server.shutdown();
    await Deno.remove(folder, { recursive: true });
  }
});
