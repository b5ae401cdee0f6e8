import assert from "node:assert/strict";
import { Checkpoint } from "./checkpoint.ts";
import { encodeSafetensors, safetensorsOf, withFolder } from "../../tests/support/safetensors.ts";

const ONE = safetensorsOf({ a: { dtype: "f32", shape: [2], values: [1, 2] } });
const TWO = safetensorsOf({
  b: { dtype: "f16", shape: [3], values: [3, 4, 5] },
  c: { dtype: "u32", shape: [1], values: [6] },
});

function indexOf(weight_map: unknown): string {
  return JSON.stringify({ metadata: {}, weight_map });
}

function assertRefused(
  files: Readonly<Record<string, Uint8Array | string>>,
  message: RegExp,
): void {
  withFolder(files, (folder) => {
    assert.throws(() => Checkpoint.open(folder), (error) => {
      assert.ok(error instanceof SyntaxError, String(error));
      assert.match(error.message, message);
      return true;
    });
  });
}

Deno.test("Checkpoint.open() takes a component's file by its name, not every file beside it", () => {
  for (const name of ["model.safetensors", "diffusion_pytorch_model.safetensors"]) {
    withFolder({ [name]: ONE, "other.safetensors": TWO }, (folder) => {
      using checkpoint = Checkpoint.open(folder);
      assert.deepEqual([...checkpoint.names], ["a"]);
      assert.equal(checkpoint.byteLength, 8);
      assert.equal(checkpoint.find("b"), undefined);
    });
  }
});

Deno.test("Checkpoint.open() joins the files of an index, and read() takes ranges of any of them", () => {
  const files = {
    "model-1.safetensors": ONE,
    "model-2.safetensors": TWO,
    "model.safetensors.index.json": indexOf({ c: "model-2.safetensors", a: "model-1.safetensors" }),
  };
  withFolder(files, (folder) => {
    using checkpoint = Checkpoint.open(folder);
    assert.deepEqual([...checkpoint.names].sort(), ["a", "c"]);
    const bytes = new Uint8Array(4);
    checkpoint.read("a", 4, bytes);
    assert.deepEqual(new Float32Array(bytes.buffer), Float32Array.of(2));
    checkpoint.read("c", 0, bytes);
    assert.deepEqual(new Uint32Array(bytes.buffer), Uint32Array.of(6));
    assert.throws(() => checkpoint.read("a", 5, bytes), RangeError);
    assert.throws(() => checkpoint.read("b", 0, bytes), RangeError);
  });
});

Deno.test("Checkpoint.open() reads an index with a byte order mark", () => {
  const index = `\ufeff${indexOf({ a: "model-1.safetensors" })}`;
  withFolder(
    { "model-1.safetensors": ONE, "model.safetensors.index.json": index },
    (folder) => {
      using checkpoint = Checkpoint.open(folder);
      assert.deepEqual([...checkpoint.names], ["a"]);
    },
  );
});

Deno.test("Checkpoint.open() refuses a folder without weights", () => {
  assertRefused({ "config.json": "{}" }, /Cannot find weights in/);
});

Deno.test("Checkpoint.open() refuses an index whose files are missing, or do not hold what it says", () => {
  const index = (map: unknown) => ({ "model.safetensors.index.json": indexOf(map) });
  assertRefused(
    {
      "model-1.safetensors": ONE,
      ...index({ a: "model-1.safetensors", b: "model-2.safetensors" }),
    },
    /Cannot open weights ".*model-2\.safetensors"/,
  );
  assertRefused(
    {
      "model-1.safetensors": ONE,
      ...index({ a: "model-1.safetensors", z: "model-1.safetensors" }),
    },
    /the index says it holds tensor "z", it does not/,
  );
  assertRefused(
    { "model.safetensors.index.json": "{" },
    /Cannot read .*index\.json: it is not valid JSON/,
  );
  assertRefused({ "model.safetensors.index.json": "{}" }, /it has no "weight_map"/);
  assertRefused(index("model.safetensors"), /it has no "weight_map"/);
});

Deno.test("Checkpoint.open() never follows an index out of its folder", () => {
  for (
    const file of [
      "../x.safetensors",
      "/etc/x.safetensors",
      "..\\x.safetensors",
      "sub/x.safetensors",
      "passwd",
      7,
    ]
  ) {
    assertRefused(
      { "model.safetensors.index.json": indexOf({ a: file }), "model.safetensors": ONE },
      /which is no file of the folder/,
    );
  }
});

Deno.test("Checkpoint.open() closes the files it had opened when a later one is damaged", () => {
  // The test runner fails this test when a file stays open.
  assertRefused({
    "model-1.safetensors": ONE,
    "model-2.safetensors": encodeSafetensors("{"),
    "model.safetensors.index.json": indexOf({ a: "model-1.safetensors", b: "model-2.safetensors" }),
  }, /its header is not JSON/);
});
