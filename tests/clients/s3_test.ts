/** Results in a private bucket of a store that is not ours, moto's (`deno task test:clients`). */

import { strict as assert } from "node:assert";
import { startServer } from "../../server/serve.ts";
import { S3Storage } from "../../server/storage/s3.ts";
import { LocalStorage } from "../../server/storage/local.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { until } from "../fakes/service.ts";
import { missing } from "./python.ts";
import { startStore } from "./s3_process.ts";

const reason = await missing("moto");

const fetchAll = async (url: string, init?: RequestInit) => {
  const response = await fetch(url, init);
  return { status: response.status, bytes: await response.bytes() };
};

Deno.test({
  name: `links to a private bucket of moto work, and no others${reason ? `: ${reason}` : ""}`,
  ignore: reason !== undefined,
  fn: async () => {
    await using store = await startStore();
    const folder = await Deno.makeTempDir();
    const lines: string[] = [];
    const server = await startServer({
      openEngine: () => Promise.resolve(new FakeEngine()),
      port: 0,
      outputPath: folder,
      s3: store.settings,
      log: (line) => lines.push(line),
    });
    const post = async (path: string, body: unknown) =>
      await (await fetch(server.url + path, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      })).json();
    try {
      await server.ready;
      const body = { prompt: "a", n: 2, response_format: "url", output_format: "png" };
      const { id, data } = await post("/v1/images/generations", body);
      for (const [index, { url }] of data.entries()) {
        assert.ok(url.startsWith(store.settings.endpoint), `${url}\n${lines.join("\n")}`);
        const image = await fetchAll(url);
        assert.equal(image.status, 200, new TextDecoder().decode(image.bytes));
        assert.deepEqual([...image.bytes.subarray(1, 4)], [...new TextEncoder().encode("PNG")]);
        const content = `${server.url}/v1/images/${id}/content?variant=${index}`;
        assert.deepEqual((await fetchAll(content)).bytes, image.bytes);
        assert.equal((await fetchAll(content, { method: "HEAD" })).status, 200);
        assert.equal((await fetchAll(url.split("?")[0])).status, 403, "the bucket is private");
        const forged = url.replace(/Signature=..../, "Signature=0000");
        assert.equal((await fetchAll(forged)).status, 403);
        assert.equal((await fetchAll(url.replace("Expires=3600", "Expires=7200"))).status, 403);
      }
      const video = await post("/v1/videos", { prompt: "a" });
      const path = `${server.url}/v1/videos/${video.id}`;
      const record = async () => await (await fetch(path)).json();
      await until(async () => (await record()).status === "completed");
      const { url } = await record();
      assert.equal((await fetchAll(url)).status, 200);
      assert.equal((await fetchAll(path, { method: "DELETE" })).status, 200);
      assert.equal((await fetchAll(url)).status, 404);
      const files = [...Deno.readDirSync(folder)].map(({ name }) => name);
      assert.deepEqual(files.filter((name) => /^(?:img|video)_/.test(name)), []);

      const wrong = { ...store.settings, secretAccessKey: "wrong" };
      const local = new LocalStorage(folder);
      const kept = await new S3Storage(wrong, local, () => {}).write(
        "kept.png",
        Uint8Array.of(1),
        "image/png",
      );
      assert.equal(kept.url, undefined, "a store takes nothing from whoever has no right");
    } finally {
      await server.close();
      await Deno.remove(folder, { recursive: true });
    }
  },
});
