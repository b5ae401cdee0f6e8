/** ComfyUI's layers in nvfp4, mxfp8 and int8, against what comfy-kitchen decodes. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { decodeFloats } from "../dtype.ts";
import { encodeSafetensors, withFolder } from "../../tests/support/safetensors.ts";
import { Checkpoint } from "./checkpoint.ts";
import { storedBytes } from "./container.ts";
import { READ_FORMATS } from "./storage.ts";
import { readSafetensorsHeader } from "./safetensors.ts";

const FOLDER = "tests/goldens/comfy_layers";
const FILE = join(FOLDER, "layers.safetensors");

/** Names in the file, what they are read as, and their bytes in the file. */
const LAYERS = [
  ["nvfp4", "F16", "NVFP4", 144 * 40 + 256 * 8],
  ["mxfp8", "BF16", "MXFP8", 160 * 160 + 256 * 8],
  ["whole", "F16", "INT8", 60 + 4],
  ["rows", "F16", "INT8", 60 + 6 * 4],
  ["rotated", "F16", "INT8 (ConvRot)", 5 * 512 + 5 * 4],
  ["groups", "F16", "INT8 (ConvRot)", 6 * 48 + 6 * 4],
] as const;

/** Half a unit in the last place, twice: the reference rounds before it multiplies, too. */
const ROUNDING = { F16: 2 ** -10, BF16: 0 };

Deno.test("Checkpoint.read() decodes layers in nvfp4, mxfp8 and int8, whole and by ranges", () => {
  using checkpoint = Checkpoint.open(FILE);
  using golden = Checkpoint.open(join(FOLDER, "golden.safetensors"));
  assert.deepEqual([...checkpoint.names].sort(), LAYERS.map(([name]) => `${name}.weight`).sort());
  for (const [name, format, storedAs, bytes] of LAYERS) {
    const tensor = checkpoint.find(`${name}.weight`)!;
    const expected = golden.find(name)!;
    assert.ok(READ_FORMATS.includes(tensor.format));
    assert.deepEqual(
      [tensor.format, tensor.storedAs, storedBytes(tensor), tensor.shape, tensor.byteLength],
      [format, storedAs, bytes, expected.shape, expected.byteLength],
    );
    const whole = new Uint8Array(tensor.byteLength);
    checkpoint.read(tensor.name, 0, whole);
    const reference = new Uint8Array(expected.byteLength);
    golden.read(name, 0, reference);
    const [dtype, rounding] = [format === "F16" ? "f16" : "bf16", ROUNDING[format]] as const;
    const wanted = decodeFloats(reference, dtype);
    const largest = wanted.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    decodeFloats(whole, dtype).forEach((value, i) => {
      const [error, most] = [Math.abs(value - wanted[i]!), rounding * Math.abs(wanted[i]!)];
      // Rotated numbers that cancel out keep the rounding of their terms.
      assert.ok(error <= Math.max(most, rounding && largest * 2 ** -20), `${name}[${i}]: ${value}`);
    });
    const columns = tensor.shape[1]!;
    for (const [first, count] of [[3, 1], [columns - 1, 2], [columns + 5, columns + 21]] as const) {
      const range = new Uint8Array(2 * count);
      checkpoint.read(tensor.name, 2 * first, range);
      assert.deepEqual(range, whole.subarray(2 * first, 2 * (first + count)), `${name} ${first}`);
    }
  }
});

/** Calls `use` with the path of the golden's file after a change of its header; nothing deletes a tensor. */
function withChanged(
  changes: Readonly<Record<string, Readonly<Record<string, unknown>> | undefined>>,
  use: (path: string) => void,
): void {
  const bytes = Deno.readFileSync(FILE);
  const file = {
    size: bytes.length,
    read: (start: number, target: Uint8Array) =>
      target.set(bytes.subarray(start, start + target.length)),
  };
  const { tensors } = readSafetensorsHeader(file, FILE);
  const data = bytes.subarray(8 + Number(new DataView(bytes.buffer).getBigUint64(0, true)));
  const start = bytes.length - data.length;
  const header: Record<string, unknown> = {};
  for (const { name, format, shape, byteOffset, byteLength } of tensors.values()) {
    const offsets = [byteOffset - start, byteOffset - start + byteLength];
    header[name] = { dtype: format, shape, data_offsets: offsets };
  }
  for (const [name, change] of Object.entries(changes)) {
    if (change) header[name] = { ...header[name] as object, ...change };
    else delete header[name];
  }
  withFolder(
    { "model.safetensors": encodeSafetensors(header, data) },
    (folder) => use(`${folder}/model.safetensors`),
  );
}

Deno.test("Checkpoint.open() takes the formats of layers from the header as well", () => {
  const layers = { nvfp4: { format: "nvfp4" }, absent: { format: "mxfp8" } };
  const metadata = { _quantization_metadata: JSON.stringify({ layers }) };
  withChanged({ "nvfp4.comfy_quant": undefined, __metadata__: metadata }, (path) => {
    using checkpoint = Checkpoint.open(path);
    assert.equal(checkpoint.find("nvfp4.weight")!.storedAs, "NVFP4");
  });
});

Deno.test("Checkpoint.open() refuses layers whose tensors are not those of their format", () => {
  const cases: [changes: Parameters<typeof withChanged>[0], message: RegExp][] = [
    [{ "nvfp4.weight_scale": undefined }, /"nvfp4.weight_scale" is missing; the download may be/],
    [{ "nvfp4.weight_scale_2": undefined }, /"nvfp4.weight_scale_2" is missing/],
    [{ "nvfp4.weight": { dtype: "I8" } }, /\[144, 40\] of I8 with .* is no weight in nvfp4 as/],
    [{ "nvfp4.weight": { shape: [40, 144] } }, /is no weight in nvfp4/],
    [{ "mxfp8.weight": { dtype: "F8_E5M2" } }, /is no weight in mxfp8/],
    [{ "mxfp8.weight_scale": { dtype: "F8_E4M3" } }, /is no weight in mxfp8/],
    [{ "rows.weight": { shape: [5, 12] } }, /is no weight in int8/],
    [{ "rotated.weight": { shape: [20, 128] } }, /is no weight in int8/],
    // No mark says whether int8 is rotated, or how four bits lie.
    [{ "rows.comfy_quant": undefined }, /"rows.weight" \[6, 10\] is stored as I8 and comes with/],
    [{ "nvfp4.comfy_quant": undefined }, /is stored as U8 and comes with/],
    [
      { "nvfp4.pre_quant_scale": { dtype: "F32", shape: [0], data_offsets: [0, 0] } },
      /is stored as NVFP4 and comes with "nvfp4.pre_quant_scale"/,
    ],
  ];
  for (const [changes, message] of cases) {
    withChanged(changes, (path) => assert.throws(() => Checkpoint.open(path), message));
  }
  withChanged(
    { "nvfp4.weight_scale": { dtype: "U8" } },
    (path) => Checkpoint.open(path)[Symbol.dispose](),
  );
});
