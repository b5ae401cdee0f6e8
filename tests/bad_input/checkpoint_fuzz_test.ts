import assert from "node:assert/strict";
import fc from "fast-check";
import { Checkpoint } from "../../runtime/weights/checkpoint.ts";
import { encodeGguf } from "../support/gguf.ts";
import { encodeSafetensors, safetensorsOf, withFolder } from "../support/safetensors.ts";

const FILE = "model.safetensors";
const INDEX = "model.safetensors.index.json";
const WHOLE = safetensorsOf({
  "block.weight": { dtype: "f16", shape: [4, 3], values: Array(12).fill(0.5) },
  "block.bias": { dtype: "f32", shape: [4], values: [1, 2, 3, 4] },
  scale: { dtype: "bf16", shape: [2, 1], values: [1, 2] },
});

/** Opens files as a component's weights: what they hold must then be readable, or the refusal be one sentence. */
function openOrRefuse(files: Record<string, Uint8Array | string>): "opened" | "refused" {
  return withFolder(files, (folder) => {
    let checkpoint: Checkpoint;
    try {
      checkpoint = Checkpoint.open(folder);
    } catch (error) {
      assert.ok(error instanceof SyntaxError, `${(error as Error).stack}`);
      assert.match(error.message, /^Cannot (?:read|open weights|find weights in) "[^\n]{1,1500}$/);
      return "refused";
    }
    using opened = checkpoint;
    for (const name of opened.names) {
      const { byteLength } = opened.find(name)!;
      opened.read(name, 0, new Uint8Array(byteLength));
    }
    return "opened";
  });
}

Deno.test("Checkpoint.open() refuses a file that ends early, wherever that is", () => {
  assert.equal(openOrRefuse({ [FILE]: WHOLE }), "opened");
  for (let length = 0; length < WHOLE.length; length++) {
    assert.equal(openOrRefuse({ [FILE]: WHOLE.slice(0, length) }), "refused", `${length} bytes`);
  }
});

Deno.test("Checkpoint.open() opens or refuses a file with any bytes of it changed", () => {
  const change = fc.tuple(fc.nat(WHOLE.length - 1), fc.nat(255));
  fc.assert(
    fc.property(fc.array(change, { minLength: 1, maxLength: 6 }), (changes) => {
      const bytes = WHOLE.slice();
      for (const [at, value] of changes) bytes[at] = value;
      openOrRefuse({ [FILE]: bytes });
    }),
    { numRuns: 400 },
  );
});

Deno.test("Checkpoint.open() opens or refuses any header that is JSON", () => {
  const size = fc.oneof(fc.integer({ min: -2, max: 40 }), fc.double(), fc.maxSafeInteger());
  const entry = fc.record({
    dtype: fc.oneof(fc.constantFrom("F32", "F16", "BF16", "I64", "F8_E4M3"), fc.jsonValue()),
    shape: fc.oneof(fc.array(size, { maxLength: 12 }), fc.jsonValue()),
    data_offsets: fc.oneof(fc.tuple(size, size), fc.jsonValue()),
  }, { requiredKeys: [] });
  const name = fc.oneof(fc.string(), fc.constantFrom("__metadata__", "__proto__", "constructor"));
  const header = fc.oneof(fc.dictionary(name, fc.oneof(entry, fc.jsonValue())), fc.jsonValue());
  fc.assert(
    fc.property(header, (value) => {
      openOrRefuse({ [FILE]: encodeSafetensors(value, new Uint8Array(40)) });
    }),
    { numRuns: 400 },
  );
});

Deno.test("Checkpoint.open() opens or refuses any index, and nothing outside the folder", () => {
  const file = fc.oneof(
    fc.constantFrom("a.safetensors", "../a.safetensors", "C:a.safetensors", "a\0.safetensors"),
    fc.string().map((text) => `${text}.safetensors`),
    fc.jsonValue(),
  );
  const index = fc.oneof(
    fc.record({ weight_map: fc.oneof(fc.dictionary(fc.string(), file), fc.jsonValue()) }),
    fc.jsonValue(),
  );
  fc.assert(
    fc.property(index, (value) => {
      openOrRefuse({ [INDEX]: JSON.stringify(value), "a.safetensors": WHOLE });
    }),
    { numRuns: 300 },
  );
});

const GGUF = encodeGguf({
  metadata: [
    ["general.architecture", { text: "wan" }],
    ["general.alignment", { u32: 32 }],
    ["texts", { texts: ["a", "b", "c"] }],
    ["numbers", { i32s: [1, 2, 3] }],
    ["comfy.gguf.orig_shape.a", { i32s: [4, 8] }],
  ],
  tensors: [
    ["a", { type: 8, shape: [1, 32], data: new Uint8Array(34) }],
    ["b.weight", { type: 12, shape: [2, 256], data: new Uint8Array(288) }],
    ["c.bias", { shape: [3], data: new Uint8Array(12) }],
  ],
});

/** Opens a single file, or says that it is refused. */
function openOrRefuseFile(bytes: Uint8Array): "opened" | "refused" {
  return withFolder({ "m": bytes }, (folder) => {
    let checkpoint: Checkpoint;
    try {
      checkpoint = Checkpoint.open(`${folder}/m`);
    } catch (error) {
      assert.ok(error instanceof SyntaxError, `${(error as Error).stack}`);
      assert.match(error.message, /^Cannot read "[^\n]{1,3500}$/);
      return "refused";
    }
    using opened = checkpoint;
    for (const name of opened.names) {
      const { byteLength } = opened.find(name)!;
      assert.ok(byteLength <= bytes.length);
      opened.read(name, 0, new Uint8Array(byteLength));
    }
    return "opened";
  });
}

Deno.test("Checkpoint.open() refuses a GGUF file that ends early, wherever that is", () => {
  assert.equal(openOrRefuseFile(GGUF), "opened");
  for (let length = 0; length < GGUF.length; length++) {
    assert.equal(openOrRefuseFile(GGUF.slice(0, length)), "refused", `${length} bytes`);
  }
});

Deno.test("Checkpoint.open() opens or refuses a GGUF file with any bytes of its header changed", () => {
  const headerBytes = GGUF.length - 384;
  const change = fc.tuple(fc.nat(headerBytes - 1), fc.oneof(fc.nat(255), fc.constantFrom(0, 255)));
  const start = performance.now();
  fc.assert(
    fc.property(fc.array(change, { minLength: 1, maxLength: 8 }), (changes) => {
      const bytes = GGUF.slice();
      for (const [at, value] of changes) bytes[at] = value;
      openOrRefuseFile(bytes);
    }),
    { numRuns: 1500 },
  );
  assert.ok(performance.now() - start < 60_000);
});

Deno.test("Checkpoint.open() opens or refuses GGUF files of any counts, shapes, types and offsets", () => {
  const number = fc.oneof(
    fc.bigInt({ min: 0n, max: 70n }),
    fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    fc.constantFrom(2n ** 31n, 2n ** 32n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 32n),
  );
  const name = fc.oneof(
    fc.string(),
    fc.constantFrom("../../etc/passwd", "/a", "__proto__", "a\0b", "C:\\a"),
  );
  const tensor = fc.record({
    type: fc.integer({ min: 0, max: 45 }),
    shape: fc.array(number, { maxLength: 10 }),
    offset: number,
    data: fc.uint8Array({ maxLength: 300 }),
  }, { requiredKeys: ["shape"] });
  const contents = fc.record({
    tensors: fc.array(fc.tuple(name, tensor), { maxLength: 4 }),
    tensorCount: number,
    keyCount: number,
  }, { requiredKeys: ["tensors"] });
  fc.assert(
    fc.property(contents, (value) => {
      openOrRefuseFile(encodeGguf(value));
    }),
    { numRuns: 800 },
  );
});

Deno.test("Checkpoint.open() refuses a GGUF header of millions of texts in bounded time", () => {
  const start = performance.now();
  const bytes = encodeGguf({ metadata: [["k", { bytes: new Uint8Array(70 * 2 ** 20) }]] });
  // From bytes to texts, eight of the bytes for each: all of them empty.
  new DataView(bytes.buffer).setUint32(24 + 8 + 1 + 4, 8, true);
  assert.equal(openOrRefuseFile(bytes), "refused");
  assert.ok(performance.now() - start < 20_000);
});

for (const name of ["plain.pt", "legacy.pt"]) {
  const torch = Deno.readFileSync(new URL(`../goldens/pickles/${name}`, import.meta.url));

  Deno.test(`Checkpoint.open() refuses ${name} of torch.save that ends early, wherever that is`, () => {
    assert.equal(openOrRefuseFile(torch), "opened");
    // Every length with DENOISE_SLOW, which takes minutes beside other tests.
    const step = Deno.env.has("DENOISE_SLOW") ? 1 : 7;
    for (let length = 0; length < torch.length; length += step) {
      assert.equal(openOrRefuseFile(torch.slice(0, length)), "refused", `${length} bytes`);
    }
  });

  Deno.test(`Checkpoint.open() opens or refuses ${name} of torch.save with any bytes of it changed`, () => {
    const change = fc.tuple(
      fc.nat(torch.length - 1),
      fc.oneof(fc.nat(255), fc.constantFrom(0, 255)),
    );
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 8 }), (changes) => {
        const bytes = torch.slice();
        for (const [at, value] of changes) bytes[at] = value;
        openOrRefuseFile(bytes);
      }),
      { numRuns: 1500 },
    );
  });
}

/** Headers whose parsing could take the machine along: name, the header's text, what is said of it. */
const HEAVY: [name: string, text: string, message: RegExp][] = [
  ["nests deeply", "[".repeat(1e6), /its header is not JSON/],
  ["nests deeply and ends well", `${"[".repeat(1e6)}${"]".repeat(1e6)}`, /not a JSON object/],
  [
    "nests deeply in an entry",
    `{"a":{"dtype":${"[".repeat(1e5)}${"]".repeat(1e5)}}}`,
    /tensor "a" has the unknown type/,
  ],
  [
    "nests deeply in its metadata",
    `{"__metadata__":{"a":${"[".repeat(1e5)}${"]".repeat(1e5)}}}`,
    /its metadata is not all text/,
  ],
  [
    "has a million dimensions",
    JSON.stringify({ a: { dtype: "F32", shape: Array(1e6).fill(1), data_offsets: [0, 4] } }),
    /tensor "a" has the shape \[1,1,1/,
  ],
  ["has a name of a million characters", JSON.stringify({ ["a".repeat(1e6)]: {} }), /1000000/],
];

for (const [name, text, message] of HEAVY) {
  Deno.test(`Checkpoint.open() refuses a header that ${name} in bounded time`, () => {
    const start = performance.now();
    withFolder({ [FILE]: encodeSafetensors(text) }, (folder) => {
      assert.throws(() => Checkpoint.open(folder), (error) => {
        assert.ok(error instanceof SyntaxError);
        assert.match(error.message, message);
        assert.ok(error.message.length < 1000, `${error.message.length} characters`);
        return true;
      });
    });
    assert.ok(performance.now() - start < 20_000);
  });
}

Deno.test("Checkpoint.open() takes an index of 100 000 tensors in one file in bounded time", () => {
  const names = Array.from({ length: 1e5 }, (_, i) => `t${i}`);
  const start = performance.now();
  const result = openOrRefuse({
    [INDEX]: JSON.stringify({
      weight_map: Object.fromEntries(names.map((name) => [name, "a.safetensors"])),
    }),
    "a.safetensors": encodeSafetensors(
      Object.fromEntries(
        names.map((name) => [name, { dtype: "U8", shape: [0], data_offsets: [0, 0] }]),
      ),
    ),
  });
  assert.equal(result, "opened");
  assert.ok(performance.now() - start < 20_000);
});
