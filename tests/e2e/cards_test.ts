/** Several devices behind one queue, with the bundled model on this machine's adapter. */
import { strict as assert } from "node:assert";
import { fileURLToPath } from "node:url";
import { chooseCards } from "../../engine/cards/choose_cards.ts";
import { WorkerEngine } from "../../engine/worker_engine.ts";
import { UNIFIED_SHARE } from "../../runtime/device/host_memory.ts";
import { type RunningServer, serve, type WorkerRecord } from "../../server/mod.ts";

const SLOW = !Deno.env.get("DENOISE_SLOW");

async function withServer(gpus: number, use: (server: RunningServer) => Promise<void>) {
  const server = await serve({ gpus, port: 0, outputPath: "" });
  try {
    await server.ready;
    await use(server);
  } finally {
    await server.close();
  }
}

async function workers({ url }: RunningServer): Promise<WorkerRecord[]> {
  return (await (await fetch(`${url}/v1/workers`)).json()).data;
}

const pause = () => new Promise((resolve) => setTimeout(resolve, 100));

/** Images in base64. */
async function images({ url }: RunningServer, fields: Record<string, unknown>): Promise<string[]> {
  const size = { size: "64x64", num_inference_steps: 2, response_format: "b64_json" };
  const response = await fetch(`${url}/v1/images/generations`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt: "a red circle", ...size, ...fields }),
  });
  const { data, ...body } = await response.json();
  assert.equal(response.status, 200, JSON.stringify(body));
  return data.map(({ b64_json }: { b64_json: string }) => b64_json);
}

Deno.test("two cards are opened side by side, each by its own name, and share the system's memory", async () => {
  const plans = chooseCards({ count: 2 }, { isSoftware: true });
  const model = fileURLToPath(new URL("../../models/bundled", import.meta.url));
  const engines = plans.map(({ address: card }) =>
    new WorkerEngine(model, { modelPath: "bundled", card })
  );
  try {
    await Promise.all(engines.map((engine) => engine.describe()));
    assert.deepEqual(engines.map(({ adapter }) => adapter), plans.map(({ name }) => name));
    const most = Deno.systemMemoryInfo().total * UNIFIED_SHARE / 2;
    for (const { info } of engines) assert.ok(info.deviceBytes! <= most);
  } finally {
    await Promise.all(engines.map((engine) => engine.close()));
  }
});

Deno.test({
  name: "2, 3 and 4 devices make what one makes, to the bit, and share it evenly (slow: a minute)",
  ignore: SLOW,
  fn: async () => {
    const seed = Array.from({ length: 8 }, (_, i) => i);
    let expected: string[] | undefined;
    for (const gpus of [1, 2, 3, 4]) {
      await withServer(gpus, async (server) => {
        while ((await workers(server)).some(({ state }) => state === "loading")) await pause();
        const start = performance.now();
        const jobs = seed.map((seed) => images(server, { seed }));
        const alone = (await Promise.all(jobs)).flat();
        const together = await images(server, { n: 8, seed });
        console.log(`${gpus} devices: ${((performance.now() - start) / 1000).toFixed(1)} s`);
        expected ??= alone;
        assert.deepEqual(alone, expected);
        assert.deepEqual(together, expected);
        const done = (await workers(server)).map(({ outputs_done }) => outputs_done);
        console.log(`outputs: ${done.join(", ")}`);
        assert.equal(done.reduce((sum, one) => sum + one), 16);
        assert.ok(Math.min(...done) >= 16 / gpus / 2, `uneven: ${done}`);
      });
    }
  },
});
