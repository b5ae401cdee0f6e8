import assert from "node:assert/strict";
import type { Inspection } from "../models/mod.ts";
import { describe } from "./inspect.ts";

const FILE: Inspection = {
  path: "/m/z.gguf",
  kind: "weights",
  family: "Z-Image",
  bytes: 3.5e9,
  components: [{
    component: "transformer",
    holds: "a Z-Image transformer",
    formats: [{ format: "Q4_K", tensors: 200, bytes: 3.4e9 }, {
      format: "F32",
      tensors: 9,
      bytes: 1e8,
    }],
    parameters: 6.15e9,
    bytes: 3.5e9,
    deviceBytes: 3.5e9,
    hasUnreadFormats: false,
  }],
  problem:
    'Cannot open "/m/z.gguf": it holds a Z-Image transformer, and the tokenizer is missing; name it',
};

Deno.test("describe() of a file has its parts in a table, and what is missing", () => {
  assert.equal(
    describe("z.gguf", FILE),
    [
      "z.gguf: a Z-Image transformer, 3.5 GB",
      "",
      "part         stored as                  numbers      on disk  on the GPU",
      "transformer  Q4_K 3.4 GB, F32 100.0 MB  6.2 billion  3.5 GB   3.5 GB",
      "",
      "The tokenizer is missing; name it",
    ].join("\n"),
  );
});

Deno.test("describe() of a LoRA tells how it was made, and whether it fits", () => {
  const lora = {
    ...{ dialect: "kohya (LoHa)", family: "Wan 14B", modules: { transformer: 400 }, ranks: [16] },
    ...{ formats: ["BF16"], refused: [], unknownKeys: [], notes: { "modelspec.title": "fox" } },
  };
  const found: Inspection = { path: "a", kind: "lora", bytes: 3e8, components: [], lora };
  const text = describe("fox.safetensors", found, {
    ...{ model: "wan", fits: true, modules: 400, unmatchedKeys: ["x"] },
  });
  assert.match(text, /^fox\.safetensors: a LoRA for Wan 14B, 300\.0 MB\n/);
  assert.match(text, /naming {5}kohya \(LoHa\)\nmodules {4}400 of the transformer\nrank {7}16/);
  assert.match(text, /It fits wan: 400 modules are changed; 1 of its keys lead to nothing$/);
});
