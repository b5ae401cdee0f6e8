/** Two servers on one folder of results, as their clients see them. */

import { strict as assert } from "node:assert";
import { startServer } from "../../server/serve.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { until } from "../fakes/service.ts";

interface Video {
  id: string;
  status: string;
}

Deno.test("a server cancels and deletes the videos of another one on the same folder", async () => {
  const folder = await Deno.makeTempDir();
  const engines = [new FakeEngine({ stepMs: 20 }), new FakeEngine()];
  const servers = await Promise.all(engines.map((engine) =>
    startServer({
      openEngine: () => Promise.resolve(engine),
      port: 0,
      outputPath: folder,
      graceMs: 0,
    })
  ));
  const [one, other] = servers.map(({ url }) => `${url}/v1/videos`);
  const ask = async (url: string, method = "GET", body?: unknown) => {
    const response = await fetch(url, {
      method,
      ...(body ? { body: JSON.stringify(body) } : {}),
      headers: { "content-type": "application/json" },
    });
    return { status: response.status, video: await response.json() as Video };
  };
  try {
    await Promise.all(servers.map(({ ready }) => ready));
    const create = async () => {
      const body = { prompt: "a", num_inference_steps: 50 };
      const { video } = await ask(one!, "POST", body);
      await until(async () => (await ask(`${other}/${video.id}`)).video.status === "in_progress");
      return video.id;
    };
    const cancelled = await create();
    const answer = await ask(`${other}/${cancelled}/cancel`, "POST");
    assert.deepEqual([answer.status, answer.video.status], [200, "cancelled"]);
    assert.equal(engines[0]!.aborted, 1);

    const deleted = await create();
    const gone = await ask(`${other}/${deleted}`, "DELETE");
    assert.deepEqual([gone.status, gone.video.status], [200, "deleted"]);
    assert.equal(engines[0]!.aborted, 2);
    assert.equal((await ask(`${one}/${deleted}`)).status, 404);
    const files = [...Deno.readDirSync(folder)].map(({ name }) => name);
    assert.deepEqual(files.filter((name) => name.includes(deleted)), []);
  } finally {
    await Promise.all(servers.map((server) => server.close()));
    await Deno.remove(folder, { recursive: true });
  }
});
