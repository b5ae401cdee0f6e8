import { strict as assert } from "node:assert";
import type { LoraFile } from "./file/lora_file.ts";
import { readWords } from "./words.ts";

Deno.test("readWords() refuses a word without vectors", async () => {
  const name = "bundle_emb.glow.string_to_param.*";
  const file = {
    path: "glow.safetensors",
    tensors: new Map([[name, { name, shape: [], format: "f32" }]]),
    read: () => Promise.resolve(new Map()),
  } as unknown as LoraFile;
  await assert.rejects(readWords(file), /glow.safetensors": its word "glow" has no vectors/);
});
