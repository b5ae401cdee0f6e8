/** See `lora_sequences.ts`. */

import { strict as assert } from "node:assert";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { EngineWorker } from "../../engine/engine_worker.ts";
import { openEngine } from "../../engine/mod.ts";
import type { Engine } from "../../engine/types.ts";
import { WorkerEngine } from "../../engine/worker_engine.ts";
import { decodeImage } from "../../media/decode.ts";
import { startServer } from "../../server/serve.ts";
import { colourOfParts, FAKE_COMPONENTS, loraFile } from "../fakes/loras.ts";
import { type Applied, runSequences } from "./sequences.ts";
import { safetensorsOf, withFolder } from "../support/safetensors.ts";

const SCRIPT = new URL("../fakes/gpu_worker.ts", import.meta.url);
const MARKS: Readonly<Record<string, number>> = { "a.safetensors": 1, "b.safetensors": 2 };
const FILES = {
  ...Object.fromEntries(
    Object.entries(MARKS).map(([name, mark]) => [name, loraFile({ mark })]),
  ),
  "nan.safetensors": loraFile({ mark: NaN }),
  "short.safetensors": loraFile({ mark: 1 }).slice(0, -1),
};

/** Sequences against a GPU worker that is none: what counts is who gets which adapters, and when. */
function sequences(count: number): Promise<void> {
  return withFolder(FILES, async (folder) => {
    const newWorker = () => new EngineWorker(new Worker(SCRIPT, { type: "module" }));
    const server = await startServer({
      port: 0,
      outputPath: "",
      loraFolders: [folder],
      openEngine: async () => {
        // The bound is too small for two, so that LoRAs come and go all the time.
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
        imageOf: async (file) => (await decodeImage(file)).data.slice(0, 3).toHex(),
        expected: (applied) => {
          const colour = colourOfParts(applied.map(({ path, strength, target, mode }) => ({
            mark: MARKS[path]!,
            strength,
            targets: target === "all" ? FAKE_COMPONENTS.map(({ target }) => target) : [target],
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

const MODEL = fileURLToPath(new URL("../../models/bundled/", import.meta.url));
const REQUEST = { prompt: "a red circle", width: 32, height: 32, numInferenceSteps: 2, seed: 7 };

/** Low-rank factors of three of the bundled model's layers, 160 wide. */
function smallLora(phase: number): Uint8Array {
  const wave = (shape: number[], factor: number) => ({
    dtype: "f32" as const,
    shape,
    values: Float32Array.from({ length: 320 }, (_, i) => factor * Math.sin(i * 1.7 + phase)),
  });
  const layers = ["blocks.0.attn1.to_q", "blocks.1.attn1.to_v", "blocks.2.attn2.to_out.0"];
  return safetensorsOf(Object.fromEntries(layers.flatMap((layer) => [
    [`${layer}.lora_A.weight`, wave([2, 160], 0.3)],
    [`${layer}.lora_B.weight`, wave([160, 2], 0.3)],
  ])));
}

/** Images that the engine makes when it is asked without a server, each made once. */
function directly(
  engine: Engine,
  folder: string,
): (applied: readonly Applied[]) => Promise<string> {
  const made = new Map<string, Promise<string>>();
  const make = async (applied: readonly Applied[]) => {
    const { frames } = await engine.generate({
      ...REQUEST,
      guidanceScale: 1,
      loras: applied.map(({ path, strength, target, mode }) => ({
        ...{ path: join(folder, path), strength, target, mode },
      })),
    });
    return frames[0]!.toHex();
  };
  return (applied) => {
    const key = JSON.stringify(
      applied.map(({ path, strength, target, mode }) => [path, strength, target, mode]),
    );
    const image = made.get(key) ?? make(applied);
    made.set(key, image);
    return image;
  };
}

/** Sequences against the bundled model. */
function realSequences(count: number): Promise<void> {
  const files = {
    "a.safetensors": smallLora(0),
    "b.safetensors": smallLora(1),
    "nan.safetensors": smallLora(NaN),
  };
  return withFolder(files, async (folder) => {
    const engine = await openEngine({ modelPath: MODEL });
    const server = await startServer({
      port: 0,
      outputPath: "",
      loraFolders: [folder],
      openEngine: () => Promise.resolve(engine),
    });
    try {
      await server.ready;
      await runSequences({
        url: server.url,
        targets: ["transformer"],
        good: ["a.safetensors", "b.safetensors"],
        bad: ["nan.safetensors"],
        request: {
          ...{ prompt: REQUEST.prompt, seed: REQUEST.seed, size: "32x32", guidance_scale: 1 },
          ...{ num_inference_steps: REQUEST.numInferenceSteps, output_format: "png" },
          response_format: "b64_json",
        },
        imageOf: async (file) => (await decodeImage(file)).data.toHex(),
        expected: directly(engine, folder),
      }, { count });
    } finally {
      await server.close();
    }
  });
}

Deno.test("sequences of set, merge, unmerge and generate give the bundled model's images, bit for bit", () =>
  realSequences(6));

Deno.test({
  name: "1000 sequences give the bundled model's images, bit for bit; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: () => realSequences(1000),
});

Deno.test("sequences of set, merge, unmerge and generate from 3 clients do what is said of them", () =>
  sequences(60));

Deno.test({
  name: "1000 sequences of set, merge, unmerge and generate from 3 clients; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: () => sequences(1000),
});
