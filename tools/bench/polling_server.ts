/** A server without a GPU, for the bench of polling: says where it listens, and ends with its standard input. */

import { startServer } from "../../server/serve.ts";
import { FakeEngine } from "../../tests/fakes/engine.ts";

const folder = await Deno.makeTempDir({ prefix: "denoise-bench-" });
const server = await startServer({
  openEngine: () => Promise.resolve(new FakeEngine({ stepMs: 50, info: { maxSteps: 1000 } })),
  port: 0,
  outputPath: folder,
});
await server.ready;
console.log(server.url);
for await (const _ of Deno.stdin.readable);
await server.close();
await Deno.remove(folder, { recursive: true });
