/** See `lora_sequences.ts`. */

import { strict as assert } from "node:assert";
import { EngineWorker } from "../engine/engine_worker.ts";
import { WorkerEngine } from "../engine/worker_engine.ts";
import { decodeImage } from "../media/decode.ts";
import { startServer } from "../server/serve.ts";
import { adapterFile, colourOfParts } from "./fakes/adapters.ts";
import { runSequences } from "./lora_sequences.ts";
import { withFolder } from "./safetensors.ts";

const SCRIPT = new URL("./fakes/gpu_worker.ts", import.meta.url);
const MARKS: Readonly<Record<string, number>> = { "a.safetensors": 1, "b.safetensors": 2 };
const FILES = {
  ...Object.fromEntries(
    Object.entries(MARKS).map(([name, mark]) => [name, adapterFile({ mark })]),
  ),
  "nan.safetensors": adapterFile({ mark: NaN }),
  "short.safetensors": adapterFile({ mark: 1 }).slice(0, -1),
};

/** Sequences against a GPU worker that is none: what counts is who gets which adapters, and when. */
function sequences(count: number): Promise<void> {
  return withFolder(FILES, async (folder) => {
    const newWorker = () => new EngineWorker(new Worker(SCRIPT, { type: "module" }));
    const server = startServer({
      port: 0,
      outputPath: "",
      settings: { loraFolders: [folder] },
      openEngine: async () => {
        // The bound is too small for two, so that adapters come and go all the time.
        const engine = new WorkerEngine("x", { modelPath: "x", loraCacheBytes: 100 }, newWorker);
        await engine.start();
        return engine;
      },
    });
    try {
      await server.ready;
      const requests = await runSequences({
        url: server.url,
        targets: ["transformer", "transformer_2"],
        good: Object.keys(MARKS),
        bad: ["nan.safetensors", "short.safetensors", "../a.safetensors"],
        request: { prompt: "colour", size: "16x16", output_format: "png", num_inference_steps: 1 },
        pictureOf: async (file) => (await decodeImage(file)).data.slice(0, 3).toHex(),
        expected: (applied) => {
          const colour = colourOfParts(applied.map(({ path, strength, target, mode }) => ({
            mark: MARKS[path]!,
            strength,
            targets: target === "all" ? ["transformer", "transformer_2"] : [target],
            mode: mode === "merge" ? "merge" : "dynamic",
          })));
          return Promise.resolve(
            new Uint8Array([colour, colour >> 8, colour >> 16]).toHex(),
          );
        },
      }, { count });
      assert.ok(requests > count * 5);
    } finally {
      await server.close();
    }
  });
}

Deno.test("sequences of set, merge, unmerge and generate from 3 clients do what is said of them", () =>
  sequences(60));

Deno.test({
  name: "1000 sequences of set, merge, unmerge and generate from 3 clients; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: () => sequences(1000),
});
