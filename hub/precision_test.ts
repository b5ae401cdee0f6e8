import assert from "node:assert/strict";
import { CATALOGUE } from "./catalogue.ts";
import {
  choosePrecision,
  chooseQuantised,
  precisionsOf,
  suitingModels,
  transformerBytes,
  typeOfFile,
} from "./precision.ts";

const model = (name: string) => CATALOGUE.find((entry) => entry.name === name)!;

Deno.test("choosePrecision() takes the most bits that fit, and nothing below four by itself", () => {
  const turbo = model("z-image-turbo");
  const at = (gigabytes: number) => choosePrecision(turbo, gigabytes * 1e9);
  assert.deepEqual([24, 12, 8, 6, 2].map(at), ["bf16", "q8_0", "q6_k", "q4_k", "q4_k"]);
  assert.equal(choosePrecision(model("wan2.1-t2v-1.3b"), 1e9), "bf16");
});

Deno.test("typeOfFile() reads the type in names of every publisher", () => {
  const types = {
    "z_image_turbo-Q4_K.gguf": "q4_k",
    "wan2.1-t2v-14b-Q4_K_M.gguf": "q4_k",
    "HighNoise/Wan2.2-T2V-A14B-HighNoise-Q8_0.gguf": "q8_0",
    "flux-2-klein-4b-Q4_0.gguf": "q4_0",
    "flux1-dev-q8_0.gguf": "q8_0",
    "qwen-image-2512-IQ4_XS.gguf": "iq4_xs",
    "model-BF16.gguf": undefined,
    "README.md": undefined,
  };
  for (const [path, type] of Object.entries(types)) assert.equal(typeOfFile(path), type, path);
});

Deno.test("chooseQuantised() takes the type, of its mixes the usual, or the next one below", () => {
  const paths = [
    "a-Q8_0.gguf",
    "a-Q4_K_S.gguf",
    "a-Q4_K_M.gguf",
    "a-UD-Q4_K_M.gguf",
    "a-Q3_K_S.gguf",
  ];
  assert.equal(chooseQuantised(paths, "q4_k"), "a-Q4_K_M.gguf");
  assert.equal(chooseQuantised(paths, "q6_k"), "a-Q4_K_M.gguf");
  assert.equal(chooseQuantised(paths, "q2_k"), undefined);
  const experts = ["HighNoise/w-HighNoise-Q4_K_M.gguf", "LowNoise/w-LowNoise-Q4_K_M.gguf"];
  assert.equal(chooseQuantised(experts, "q4_k", "LowNoise"), experts[1]);
});

Deno.test("suitingModels() names three that stay on cards of 8 and 24 GB", () => {
  const at = (gigabytes: number) =>
    suitingModels(CATALOGUE, gigabytes * 1e9, 3).map(({ model, precision }) =>
      `${model.name}:${precision}`
    );
  assert.deepEqual(at(8), ["z-image-turbo:q6_k", "flux.2-klein-4b:q8_0", "wan2.2-ti2v-5b:q5_k"]);
  assert.deepEqual(at(24).map((name) => name.split(":")[1]), ["bf16", "bf16", "bf16"]);
  assert.deepEqual(at(3), []);
});

Deno.test("the catalogue has each name once, types from many bits to few, and plausible sizes", () => {
  assert.equal(new Set(CATALOGUE.map(({ name }) => name)).size, CATALOGUE.length);
  for (const entry of CATALOGUE) {
    assert.match(entry.name, /^[a-z0-9][a-z0-9.-]+$/);
    const sizes = precisionsOf(entry).map((type) => transformerBytes(entry, type));
    assert.deepEqual(sizes, sizes.toSorted((a, b) => b - a), entry.name);
    assert.ok(sizes[0]! > 1e9 && sizes[0]! < 1e11, entry.name);
  }
});
