import assert from "node:assert/strict";
import { encodeGguf } from "../../tests/support/gguf.ts";
import { safetensorsOf, withFolder } from "../../tests/support/safetensors.ts";
import { Checkpoint } from "./checkpoint.ts";

const part = (...names: string[]) =>
  safetensorsOf(
    Object.fromEntries(names.map((name) => [name, { dtype: "f32", shape: [1], values: [1] }])),
  );
const gguf = (name: string, no: number, count: number) =>
  encodeGguf({
    metadata: [
      ["split.no", { u32: no }],
      ["split.count", { u32: count }],
      ...no === 0 ? [["general.architecture", { text: "qwen3" }]] as const : [],
    ],
    tensors: [[name, { shape: [1], data: new Uint8Array(4) }]],
  });
const PICKLES = new URL("../../tests/goldens/pickles/", import.meta.url);
const indexOf = (weight_map: Record<string, string>) => JSON.stringify({ weight_map });

function namesIn(files: Record<string, Uint8Array | string>, path = ""): string[] {
  return withFolder(files, (folder) => {
    using checkpoint = Checkpoint.open(folder + path);
    return [...checkpoint.names].sort();
  });
}

Deno.test("Checkpoint.open() of a part by its name reads all parts, whichever is named", () => {
  const files = {
    "x-00001-of-00003.safetensors": part("a"),
    "x-00002-of-00003.safetensors": part("b"),
    "x-00003-of-00003.safetensors": part("c"),
    "y-00001-of-00002.safetensors": part("d"),
    "whole-00001-of-00001.safetensors": part("e"),
  };
  for (const number of [1, 2, 3]) {
    assert.deepEqual(namesIn(files, `/x-0000${number}-of-00003.safetensors`), ["a", "b", "c"]);
  }
  assert.deepEqual(namesIn(files, "/whole-00001-of-00001.safetensors"), ["e"]);
  assert.throws(
    () => namesIn(files, "/y-00001-of-00002.safetensors"),
    /it is part 1 of 2, and "y-00002-of-00002.safetensors" does not lie beside it; fetch all parts/,
  );
});

Deno.test("Checkpoint.open() of a file that an index beside it names among others reads all of them", () => {
  const files = {
    "one.safetensors": part("a"),
    "two.safetensors": part("b"),
    "other.safetensors": part("c"),
    "broken.safetensors.index.json": "{",
    "model.safetensors.index.json": indexOf({ a: "one.safetensors", b: "two.safetensors" }),
  };
  assert.deepEqual(namesIn(files, "/two.safetensors"), ["a", "b"]);
  assert.deepEqual(namesIn(files, "/other.safetensors"), ["c"]);
});

Deno.test("Checkpoint.open() reads the parts of a split GGUF file, and refuses one whose others it cannot find", () => {
  const files = {
    "q-00001-of-00002.gguf": gguf("a", 0, 2),
    "q-00002-of-00002.gguf": gguf("b", 1, 2),
    "renamed.gguf": gguf("b", 1, 2),
  };
  withFolder(files, (folder) => {
    using checkpoint = Checkpoint.open(`${folder}/q-00002-of-00002.gguf`);
    assert.deepEqual([...checkpoint.names], ["a", "b"]);
    assert.equal(checkpoint.metadata.get("general.architecture"), "qwen3");
  });
  assert.throws(
    () => namesIn(files, "/renamed.gguf"),
    /it is part 2 of 2; put all parts into one folder under the names NAME-00001-of-00002\.gguf/,
  );
});

Deno.test("Checkpoint.open() refuses parts that hold the same tensor", () => {
  const files = {
    "x-00001-of-00002.safetensors": part("a"),
    "x-00002-of-00002.safetensors": part("a"),
  };
  assert.throws(
    () => namesIn(files, "/x-00001-of-00002.safetensors"),
    /another tensor is called "a", too/,
  );
});

Deno.test("Checkpoint.open() of a folder takes its only variant, whole, in parts or with an index", () => {
  assert.deepEqual(namesIn({ "model.fp16.safetensors": part("a") }), ["a"]);
  assert.deepEqual(namesIn({ "diffusion_pytorch_model.bf16.safetensors": part("a") }), ["a"]);
  const parts = {
    "model.fp16-00001-of-00002.safetensors": part("a"),
    "model.fp16-00002-of-00002.safetensors": part("b"),
  };
  assert.deepEqual(namesIn(parts), ["a", "b"]);
  const map = { a: "model.fp16-00001-of-00002.safetensors" };
  for (const name of ["model.safetensors.index.fp16.json", "model.fp16.safetensors.index.json"]) {
    assert.deepEqual(namesIn({ ...parts, [name]: indexOf(map) }), ["a"]);
  }
  assert.deepEqual(
    namesIn({ "model.safetensors": part("a"), "model.fp16.safetensors": part("b") }),
    ["a"],
  );
});

Deno.test("Checkpoint.open() of a folder takes files of PyTorch where it has no safetensors", () => {
  const pickle = Deno.readFileSync(new URL("averaged.pth", PICKLES));
  const names = [0, 1, 2, 3, 4].map((i) => `params_ema.body.${i}.weight`);
  for (const name of ["pytorch_model", "diffusion_pytorch_model", "diffusion_pytorch_model.fp16"]) {
    assert.deepEqual(namesIn({ [`${name}.bin`]: pickle }), names);
  }
  const index = indexOf({ [names[1]!]: "pytorch_model-00001-of-00001.bin" });
  const part1 = { "pytorch_model-00001-of-00001.bin": pickle };
  assert.deepEqual(namesIn({ ...part1, "pytorch_model.bin.index.json": index }), [names[1]]);
  assert.deepEqual(
    namesIn({ "model.safetensors": part("a"), "pytorch_model.bin": pickle }),
    ["a"],
  );
});

Deno.test("Checkpoint.open() refuses a folder of several variants, and names the files of one without any", () => {
  assert.throws(
    () => namesIn({ "model.fp16.safetensors": part("a"), "model.bf16.safetensors": part("a") }),
    /Cannot choose weights in ".*": it has model as bf16 and as fp16; keep one of them/,
  );
  assert.throws(
    () => namesIn({ "model.onnx": "x", "config.json": "{}" }),
    /neither .*, nor an index of one, but model\.onnx; other formats are not read/,
  );
  assert.throws(
    () => namesIn({ "cat.safetensors": part("a"), "dog.safetensors": part("a") }),
    /but cat\.safetensors, dog\.safetensors; name one of the files/,
  );
});

Deno.test("Checkpoint.open() takes the names of PyTorch's wrappers off, wherever they stand", () => {
  const names = [
    "_orig_mod.a.weight",
    "layers.0._orig_mod.b.weight",
    "c._fsdp_wrapped_module.bias",
  ];
  assert.deepEqual(
    namesIn({ "model.safetensors": part(...names) }),
    ["a.weight", "c.bias", "layers.0.b.weight"],
  );
  assert.throws(
    () => namesIn({ "model.safetensors": part("a", "_orig_mod.a") }),
    /called "a", too/,
  );
});
