/** A real server, asked by many clients at once while it makes a video. */

import { strict as assert } from "node:assert";
import { startServer } from "../../server/serve.ts";
import { FakeEngine } from "../fakes/engine.ts";

const CLIENTS = 500;

/** How often each of them asks, in milliseconds. */
const PAUSE_MS = 250;

Deno.test(`${CLIENTS} clients that poll while a video is made all get every answer`, async () => {
  const folder = await Deno.makeTempDir();
  const server = await startServer({
    openEngine: () => Promise.resolve(new FakeEngine({ stepMs: 20 })),
    port: 0,
    outputPath: folder,
  });
  try {
    await server.ready;
    const created = await fetch(`${server.url}/v1/videos`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ prompt: "a", num_frames: 1, num_inference_steps: 50 }),
    });
    const { id } = await created.json();
    const histories = await Promise.all(Array.from({ length: CLIENTS }, async () => {
      const seen: { status: string; progress: number }[] = [];
      do {
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
        const response = await fetch(`${server.url}/v1/videos/${id}`);
        assert.equal(response.status, 200);
        seen.push(await response.json());
      } while (!["completed", "failed"].includes(seen.at(-1)!.status));
      return seen;
    }));
    for (const seen of histories) {
      assert.equal(seen.at(-1)!.status, "completed");
      for (const [index, { progress }] of seen.entries()) {
        assert.ok(progress >= (seen[index - 1]?.progress ?? 0), "progress never falls");
      }
    }
  } finally {
    await server.close();
    await Deno.remove(folder, { recursive: true });
  }
});
