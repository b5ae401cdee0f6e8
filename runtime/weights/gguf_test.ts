import assert from "node:assert/strict";
import { encodeGguf, type GgufContents } from "../../tests/support/gguf.ts";
import { withFolder } from "../../tests/support/safetensors.ts";
import { Checkpoint } from "./checkpoint.ts";

/** Opens a file of these contents. */
function withGguf<T>(
  contents: GgufContents | Uint8Array,
  use: (checkpoint: Checkpoint) => T,
): T {
  const bytes = contents instanceof Uint8Array ? contents : encodeGguf(contents);
  return withFolder({ "model.gguf": bytes }, (folder) => {
    using checkpoint = Checkpoint.open(`${folder}/model.gguf`);
    return use(checkpoint);
  });
}

function assertRefused(contents: GgufContents | Uint8Array, message: RegExp): void {
  assert.throws(() => withGguf(contents, () => {}), (error) => {
    assert.ok(error instanceof SyntaxError, `${error}`);
    assert.match(error.message, /^Cannot read "[^\n]{1,1000}; fetch it again$/);
    assert.match(error.message, message);
    return true;
  });
}

const ONE = { shape: [3], data: new Uint8Array(12) };

Deno.test("readGgufHeader() gives names, shapes outermost first, formats and bytes, of versions 2 and 3", () => {
  for (const version of [2, 3]) {
    const contents: GgufContents = {
      version,
      tensors: [
        ["a.weight", { type: 8, shape: [3, 64], data: new Uint8Array(3 * 2 * 34).fill(7) }],
        ["b", { shape: [2, 3], data: new Uint8Array(Float32Array.of(1, 2, 3, 4, 5, 6).buffer) }],
        ["c", { type: 30, shape: [1], data: Uint8Array.of(0x80, 0x3f) }],
        ["scalar", { shape: [], data: new Uint8Array(4) }],
      ],
    };
    withGguf(contents, (checkpoint) => {
      assert.deepEqual([...checkpoint.names], ["a.weight", "b", "c", "scalar"]);
      const { format, shape, byteLength } = checkpoint.find("a.weight")!;
      assert.deepEqual([format, shape, byteLength], ["Q8_0", [3, 64], 204]);
      const third = new Uint8Array(4);
      checkpoint.read("b", 8, third);
      assert.equal(new DataView(third.buffer).getFloat32(0, true), 3);
      assert.equal(checkpoint.find("c")!.format, "BF16");
      assert.deepEqual(checkpoint.find("scalar")!.shape, []);
    });
  }
});

Deno.test("readGgufHeader() keeps short metadata of every type and passes over what is long", () => {
  const metadata: GgufContents["metadata"] = [
    ["u32", { u32: 7 }],
    ["u64", { u64: 2n ** 40n }],
    ["f32", { f32: 0.5 }],
    ["bool", { bool: true }],
    ["text", { text: "wan" }],
    ["long", { text: "x".repeat(300_000) }],
    ["few", { i32s: [3, -1] }],
    ["many", { i32s: Array(1000).fill(1) }],
    ["texts", { texts: ["a", "b"] }],
  ];
  withGguf({ metadata, tensors: [["a", ONE]] }, (checkpoint) => {
    assert.deepEqual(Object.fromEntries(checkpoint.metadata), {
      u32: 7,
      u64: 2 ** 40,
      f32: 0.5,
      bool: true,
      text: "wan",
      few: [3, -1],
    });
    assert.equal(checkpoint.find("a")!.byteLength, 12);
  });
});

Deno.test("readGgufHeader() heeds the alignment, and refuses 0, odd and absurd ones", () => {
  const aligned = (alignment: number, declared: number | string): GgufContents => ({
    alignment,
    metadata: [[
      "general.alignment",
      typeof declared === "number" ? { u32: declared } : { text: declared },
    ]],
    tensors: [["a", ONE], ["b", { shape: [1], data: Uint8Array.of(1, 2, 3, 4) }]],
  });
  withGguf(aligned(4096, 4096), (checkpoint) => {
    const bytes = new Uint8Array(4);
    checkpoint.read("b", 0, bytes);
    assert.deepEqual([...bytes], [1, 2, 3, 4]);
  });
  for (const wrong of [0, 3, 33, 48, 2 ** 17, 2 ** 31]) {
    assertRefused(aligned(32, wrong), /its alignment is \d+, it must be a power of two/);
  }
  assertRefused(aligned(32, "x".repeat(500)), /its alignment is "x+, it/);
  assertRefused(aligned(32, 64), /tensor "b" begins at 32, which is no multiple of 64/);
});

Deno.test("readGgufHeader() gives the shape that a tensor had before a converter changed it", () => {
  const tensor = { shape: [2, 6], data: new Uint8Array(48) };
  const key = "comfy.gguf.orig_shape.a";
  withGguf({ metadata: [[key, { i32s: [3, 4] }]], tensors: [["a", tensor]] }, (checkpoint) => {
    assert.deepEqual(checkpoint.find("a")!.shape, [3, 4]);
  });
  for (const shape of [[3, 5], [-3, -4], []]) {
    assertRefused({ metadata: [[key, { i32s: shape }]], tensors: [["a", tensor]] }, /was not/);
  }
});

Deno.test("readGgufHeader() refuses counts, names, ranks, types and offsets that cannot be", () => {
  const big = 2n ** 63n;
  const cases: [GgufContents, RegExp][] = [
    [{ version: 1 }, /its version is 1/],
    [{ version: 0x03000000 }, /it is big-endian/],
    [{ tensorCount: big }, /claims 9223372036854776000 tensors, the limit is 65536/],
    [{ keyCount: 2n ** 64n - 1n }, /claims \d+ keys of metadata/],
    [{ tensorCount: 5n, tensors: [["a", ONE]] }, /header goes on to byte|has \d+ dimensions|name/],
    [{ tensors: [["a", ONE], ["a", ONE]] }, /two tensors "a"/],
    [{ tensors: [["x".repeat(600), ONE]] }, /name has 600 characters, the limit is 512/],
    [{ tensors: [["a\nb\0", ONE]] }, /name has control characters: "a\\nb\\u0000"/],
    [{ tensors: [["x".repeat(5000), ONE]] }, /a name claims 5000 bytes/],
    [{ tensors: [["a", { shape: Array(9).fill(1) }]] }, /"a" has 9 dimensions/],
    [{ tensors: [["a", { shape: [big] }]] }, /"a" has the shape \[9223372036854776000\]/],
    [{ tensors: [["a", { shape: [big, 0] }]] }, /"a" has the shape/],
    [{ tensors: [["a", { shape: [2n ** 32n, 2n ** 32n] }]] }, /"a" has the shape/],
    [{ tensors: [["a", { shape: [2n ** 40n] }]] }, /ends at byte \d+, the file has/],
    [{ tensors: [["a", { type: 12, shape: [300] }]] }, /ends inside a block of 256 elements/],
    [{ tensors: [["a", { type: 8, shape: [] }]] }, /ends inside a block of 32 elements/],
    [{ tensors: [["a", { ...ONE, offset: 2n ** 64n - 32n }]] }, /ends at byte|begins at/],
    [{ tensors: [["a", { ...ONE, offset: 1n }]] }, /begins at 1, which is no multiple of 32/],
    [{ tensors: [["a", ONE], ["b", { ...ONE, offset: 0n }]] }, /tensors "a" and "b" overlap/],
  ];
  for (const [contents, message] of cases) assertRefused(contents, message);
});

Deno.test("readGgufHeader() refuses lengths of texts and arrays beyond the file, at once", () => {
  // A key, then a value of a type with a length that no file has.
  const withLength = (type: number[], length: bigint) => {
    const bytes = encodeGguf({ metadata: [["k", { text: "12345678" }]], tensors: [["a", ONE]] });
    const at = 24 + 8 + 1;
    const head = bytes.slice(0, at);
    const tail = new Uint8Array(8);
    new DataView(tail.buffer).setBigUint64(0, length, true);
    return Uint8Array.from([...head, ...type.flatMap((n) => [n, 0, 0, 0]), ...tail, ...bytes]);
  };
  const start = performance.now();
  for (const length of [2n ** 63n, 2n ** 64n - 1n, 2n ** 53n, 10n ** 9n]) {
    assertRefused(withLength([8], length), /header goes on/);
    assertRefused(withLength([9, 4], length), /header goes on/);
    assertRefused(withLength([9, 8], length), /header goes on/);
    assertRefused(withLength([9, 9], length), /its metadata nests arrays/);
    assertRefused(withLength([9, 99], length), /value of its metadata has the type 99/);
  }
  assertRefused(withLength([77], 1n), /value of its metadata has the type 77/);
  assert.ok(performance.now() - start < 20_000);
});

Deno.test("readGgufHeader() says of types that it does not know whether they are newer or gone", () => {
  const refuse = (type: number, message: RegExp) =>
    assert.throws(() => withGguf({ tensors: [["a", { type, shape: [32] }]] }, () => {}), message);
  refuse(
    4,
    /"a" is stored as Q4_2 \(4\), a type that ggml no longer has; fetch the model in another/,
  );
  refuse(
    144,
    /"a" is stored as ggml's type 144, which this program does not know; fetch the model in/,
  );
});

Deno.test("Checkpoint.open() tells containers by their first bytes", () => {
  const refuse = (bytes: Uint8Array, message: RegExp) =>
    withFolder({ "model.gguf": bytes }, (folder) => {
      assert.throws(() => Checkpoint.open(`${folder}/model.gguf`), message);
    });
  refuse(
    Uint8Array.of(0x50, 0x4b, 3, 4, 0, 0),
    /it is a zip archive without the directory at its end/,
  );
  refuse(new TextEncoder().encode("GGUF"), /Cannot read ".*": its header goes on to byte 8/);
  refuse(new TextEncoder().encode("<html><body>"), /it is a web page/);
});
