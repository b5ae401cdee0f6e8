import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { withFolder } from "../../../tests/support/safetensors.ts";
import { Checkpoint } from "../checkpoint.ts";

const FOLDER = fileURLToPath(new URL("../../../tests/goldens/pickles", import.meta.url));

function bytesOf(checkpoint: Checkpoint, name: string): Uint8Array {
  const bytes = new Uint8Array(checkpoint.find(name)!.byteLength);
  checkpoint.read(name, 0, bytes);
  return bytes;
}

/** Opens a file of these bytes. */
function withFile<T>(bytes: Uint8Array<ArrayBuffer>, use: (checkpoint: Checkpoint) => T): T {
  return withFolder({ "model.ckpt": bytes }, (folder) => {
    using checkpoint = Checkpoint.open(`${folder}/model.ckpt`);
    return use(checkpoint);
  });
}

function assertRefused(bytes: Uint8Array<ArrayBuffer>, message: RegExp): void {
  assert.throws(() => withFile(bytes, () => {}), (error) => {
    assert.ok(error instanceof SyntaxError, `${error}`);
    assert.match(error.message, /^Cannot read "[^\n]{1,1000}$/);
    assert.match(error.message, message);
    return true;
  });
}

/** A pickle between protocol and end. */
function pickle(...parts: readonly (number | string)[]): Uint8Array<ArrayBuffer> {
  const bytes = parts.flatMap((part) =>
    typeof part === "number" ? [part] : [...new TextEncoder().encode(part)]
  );
  return Uint8Array.from([0x80, 2, ...bytes, 0x2e]);
}

/** A zip archive of files that are not compressed; a wide one has its sizes in 64 bits, as archives above 4 GB do. */
function zip(
  files: Readonly<Record<string, Uint8Array>>,
  { method = 0, count = Object.keys(files).length, isWide = false } = {},
): Uint8Array<ArrayBuffer> {
  const [local, central]: [number[], number[]] = [[], []];
  const u16 = (value: number) => [value & 255, value >> 8];
  const u32 = (value: number) => [...u16(value & 0xffff), ...u16(value >>> 16)];
  const u64 = (value: number) => [...u32(value), ...u32(0)];
  for (const [name, bytes] of Object.entries(files)) {
    const start = local.length;
    const text = [...new TextEncoder().encode(name)];
    const size = bytes.length;
    const head = (sizes: number, extra: number) => [
      ...[...u16(20), ...u16(0), ...u16(method), ...u32(0), ...u32(0)],
      ...[...u32(sizes), ...u32(sizes), ...u16(text.length), ...u16(extra)],
    ];
    local.push(...u32(0x04034b50), ...head(size, 0), ...text);
    for (const byte of bytes) local.push(byte);
    const extra = isWide ? [...u16(1), ...u16(24), ...u64(size), ...u64(size), ...u64(start)] : [];
    const [sizes, offset] = isWide ? [0xffffffff, 0xffffffff] : [size, start];
    const rest = [...new Array(10).fill(0), ...u32(offset), ...text, ...extra];
    central.push(...u32(0x02014b50), ...u16(20), ...head(sizes, extra.length), ...rest);
  }
  const end64 = [
    ...[...u32(0x06064b50), ...u64(44), ...u16(45), ...u16(45), ...u64(0), ...u64(count)],
    ...[...u64(count), ...u64(central.length), ...u64(local.length)],
    ...[...u32(0x07064b50), ...u32(0), ...u64(local.length + central.length), ...u32(1)],
  ];
  const sizes = isWide ? new Array(12).fill(0xff) : [
    ...[...u16(count), ...u16(count), ...u32(central.length), ...u32(local.length)],
  ];
  const end = [...u32(0x06054b50), 0, 0, 0, 0, ...sizes, 0, 0];
  return Uint8Array.from([...local, ...central, ...isWide ? end64 : [], ...end]);
}

/** A file of torch.save with this pickle and these storages. */
function torchFile(
  data: Uint8Array,
  storages: Readonly<Record<string, Uint8Array>> = {},
): Uint8Array<ArrayBuffer> {
  const stored = Object.entries(storages).map(([key, bytes]) => [`a/data/${key}`, bytes]);
  return zip({ "a/data.pkl": data, ...Object.fromEntries(stored) });
}

/** The operations that make a tensor of a storage of floats. */
function tensor(count: number, offset: number, size: readonly number[], stride: readonly number[]) {
  const integers = (
    values: readonly number[],
  ) => ["(", ...values.flatMap((value) => [0x4b, value]), "t"];
  return [
    ...[
      "ctorch._utils\n_rebuild_tensor_v2\n",
      "(",
      "(",
      0x8c,
      7,
      "storage",
      "ctorch\nFloatStorage\n",
    ],
    ...[0x8c, 1, "0", 0x8c, 3, "cpu", 0x4b, count, "t", "Q", 0x4b, offset],
    ...[
      ...integers(size),
      ...integers(stride),
      0x89,
      "ccollections\nOrderedDict\n",
      ")",
      "R",
      "t",
      "R",
    ],
  ];
}

function dict(...items: readonly (readonly [string, readonly (number | string)[]])[]) {
  return pickle("}", ...items.flatMap(([key, value]) => [0x8c, key.length, key, ...value, "s"]));
}

Deno.test("Checkpoint reads what torch.save wrote, in its zip format and the one before", () => {
  using expected = Checkpoint.open(`${FOLDER}/values.safetensors`);
  for (const file of ["plain.pt", "legacy.pt", "trained.ckpt", "protocol4.pt", "lora.pt"]) {
    using checkpoint = Checkpoint.open(`${FOLDER}/${file}`);
    const names = [...expected.names].filter((name) => name.startsWith(`${file}.`))
      .map((name) => name.slice(file.length + 1));
    assert.deepEqual([...checkpoint.names].sort(), names.sort());
    for (const name of names) {
      const [own, known] = [checkpoint.find(name)!, expected.find(`${file}.${name}`)!];
      assert.deepEqual([own.format, own.shape], [known.format, known.shape], `${file} ${name}`);
      assert.deepEqual(bytesOf(checkpoint, name), bytesOf(expected, `${file}.${name}`), name);
    }
  }
});

Deno.test("Checkpoint reads ranges of tensors whose elements do not lie one after the other", () => {
  using checkpoint = Checkpoint.open(`${FOLDER}/plain.pt`);
  for (const name of ["transposed", "channels_last"]) {
    const whole = bytesOf(checkpoint, name);
    for (const [start, count] of [[0, 3], [5, 9], [whole.length - 7, 7]] as const) {
      const part = new Uint8Array(count);
      checkpoint.read(name, start, part);
      assert.deepEqual(part, whole.subarray(start, start + count));
    }
  }
});

Deno.test("Checkpoint takes the state dict of a training's file, and keeps its short text and numbers", () => {
  using checkpoint = Checkpoint.open(`${FOLDER}/trained.ckpt`);
  const { metadata } = checkpoint;
  assert.deepEqual(["epoch", "global_step", "note"].map((key) => metadata.get(key)), [
    2,
    470,
    "trained",
  ]);
  assert.equal(checkpoint.find("plain")!.format, "F32");
});

Deno.test("Checkpoint takes the moving average where a file has weights twice, and the vectors of old modules", () => {
  using averaged = Checkpoint.open(`${FOLDER}/averaged.pth`);
  assert.deepEqual([...averaged.names], [0, 1, 2, 3, 4].map((i) => `params_ema.body.${i}.weight`));
  using parameters = Checkpoint.open(`${FOLDER}/parameters.pt`);
  assert.deepEqual([...parameters.names], ["string_to_param.*"]);
  assert.equal(new Float32Array(bytesOf(parameters, "string_to_param.*").buffer)[5], 0.5);
  assert.equal(parameters.metadata.get("name"), "style");
});

Deno.test("Checkpoint refuses a pickle that refers to anything but tensors and plain values, by its name", () => {
  assert.throws(() => Checkpoint.open(`${FOLDER}/harmful.pt`), {
    name: "SyntaxError",
    message:
      /its pickle refers to "posix\.system", and only .* nothing of it was run; fetch the model as safetensors$/,
  });
  assert.throws(() => Checkpoint.open(`${FOLDER}/no_torch.pkl`), {
    message: /it is a Python pickle that PyTorch did not save; fetch it as safetensors or GGUF/,
  });
  assertRefused(torchFile(pickle("cbuiltins\neval\n")), /refers to "builtins\.eval"/);
  assertRefused(
    torchFile(pickle(0x8c, 2, "os", 0x8c, 6, "system", 0x93)),
    /refers to "os\.system"/,
  );
  assertRefused(torchFile(pickle("cos\nsystem\n", ")", "R")), /refers to "os\.system"/);
  assertRefused(
    torchFile(pickle("}", "i")),
    /the operation 0x69 at byte 3, which PyTorch does not/,
  );
});

Deno.test("readTorchHeader() refuses tensors that are not where the pickle says", () => {
  const bytes = new Uint8Array(Float32Array.of(1, 2, 3, 4, 5, 6).buffer);
  const file = (...args: Parameters<typeof tensor>) =>
    torchFile(dict(["w", tensor(...args)]), { 0: bytes });
  withFile(file(6, 0, [2, 3], [3, 1]), (checkpoint) => {
    assert.deepEqual(bytesOf(checkpoint, "w"), bytes);
  });
  withFile(file(6, 2, [4], [1]), (checkpoint) => {
    assert.deepEqual(bytesOf(checkpoint, "w"), bytes.subarray(8));
  });
  assertRefused(file(6, 1, [2, 3], [3, 1]), /shape \[2,3\] reaches beyond its storage of 24 bytes/);
  assertRefused(file(6, 0, [2, 3], [200, 1]), /reaches beyond/);
  assertRefused(file(7, 0, [2], [1]), /storage "0" has 24 bytes, its pickle says 28/);
  assertRefused(
    file(6, 0, [200, 200], [0, 0]),
    /shape \[200,200\] repeats elements of its storage/,
  );
  assertRefused(file(6, 0, [2, 2], [3, 1]), /"w" is a part of a larger one/);
  assertRefused(file(6, 0, [2], [1, 1]), /describes a tensor in a way that PyTorch does not/);
  assertRefused(torchFile(dict(["w", tensor(6, 0, [2], [1])])), /lacks storage "0"/);
  assertRefused(torchFile(pickle("N")), /holds no dict of tensors/);
});

Deno.test("readTorchHeader() reads archives whose sizes have 64 bits", () => {
  const bytes = new Uint8Array(Float32Array.of(1, 2).buffer);
  const files = { "a/data.pkl": dict(["w", tensor(2, 0, [2], [1])]), "a/data/0": bytes };
  withFile(zip(files, { isWide: true }), (checkpoint) => {
    assert.deepEqual(bytesOf(checkpoint, "w"), bytes);
  });
  assertRefused(zip(files, { isWide: true, count: 9 }), /directory contradicts the file/);
});

/** An archive whose second file is called as its first one. */
function twice(archive: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const text = new TextDecoder("latin1").decode(archive).replaceAll("b/data.pkl", "a/data.pkl");
  return Uint8Array.from(text, (sign) => sign.charCodeAt(0));
}

Deno.test("readTorchHeader() refuses damaged archives, compressed entries and other byte orders", () => {
  const data = dict();
  assertRefused(zip({ "a/data.pkl": data }, { method: 8 }), /"a\/data\.pkl" in it is compressed/);
  assertRefused(zip({ "a/data.pkl": data }, { count: 2 }), /directory contradicts the file/);
  assertRefused(zip({ "a/other": data }), /a zip archive, and none that PyTorch has saved/);
  assertRefused(
    torchFile(data).subarray(0, 80),
    /a zip archive without the directory at its end, so it is cut off/,
  );
  assertRefused(
    twice(zip({ "a/data.pkl": data, "b/data.pkl": data })),
    /two files called "a\/data\.pkl"/,
  );
  const big = zip({ "a/data.pkl": data, "a/byteorder": new TextEncoder().encode("big") });
  assertRefused(big, /numbers are big-endian, which is not supported/);
  const legacy = Deno.readFileSync(`${FOLDER}/legacy.pt`);
  assertRefused(legacy.slice(0, -1), /it is cut off/);
  assertRefused(legacy.slice(0, 100), /pickle is cut off/);
});

Deno.test("readTorchHeader() refuses pickles that take what they have not made, and endless ones", () => {
  const cases: [Uint8Array<ArrayBuffer>, RegExp][] = [
    [pickle("0"), /takes what it has not made/],
    [pickle("N", "(", "a"), /takes what it has not made/],
    [pickle("t"), /closes what it has not opened/],
    [pickle("h", 5), /takes value 5, which it has not kept/],
    [pickle("X", 255, 255, 255, 255), /pickle is cut off/],
    [pickle("N", "N", "a"), /appends to what is no list/],
    [pickle("N", "N", "N", "s"), /sets items of what is no dict/],
    [pickle(0x8b, 0, 0, 1, 0), /an integer of 65536 bytes, the limit is 64/],
    [pickle("N", "Q"), /a storage that PyTorch would name otherwise/],
    [Uint8Array.of(0x80, 9, 0x2e), /protocol 9, and 5 is the newest/],
    [new Uint8Array(5_000_000).fill(0x4e), /more than 4000000 operations/],
  ];
  for (const [data, message] of cases) assertRefused(torchFile(data), message);
});

Deno.test("readTorchHeader() bounds what dicts that stand in several places hold", () => {
  // Each dict has the one before a thousand times.
  const dicts = [0, 1, 2].flatMap((before) => [
    ...["}", 0x71, before + 1],
    ...Array.from({ length: 1000 }, (_, k) => [0x4d, k & 255, k >> 8, "h", before, "s"]).flat(),
  ]);
  const data = pickle("}", 0x71, 0, ...dicts);
  assertRefused(torchFile(data), /dicts have more than 500000 items/);
});

Deno.test("readTorchHeader() bounds what calls make of one list", () => {
  const pairs = Array.from({ length: 2000 }, (_, k) => [0x4d, k & 255, k >> 8, "N", 0x86]).flat();
  const [list, callee] = [
    ["]", "(", ...pairs, "e", 0x85, 0x71, 1, "0"],
    "ccollections\nOrderedDict\n",
  ];
  const calls = Array.from({ length: 501 }, () => ["h", 2, "h", 1, "R", "0"]).flat();
  const data = pickle(...list, callee, 0x71, 2, "0", ...calls, "}");
  assertRefused(torchFile(data), /makes dicts of more than 1000000 items/);
});
