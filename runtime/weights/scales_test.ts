import assert from "node:assert/strict";
import { encodeSafetensors, withFolder } from "../../tests/support/safetensors.ts";
import { decodeFloats } from "../dtype.ts";
import { Checkpoint } from "./checkpoint.ts";

type Entry = readonly [dtype: string, shape: readonly number[], bytes: Uint8Array];

const WEIGHT: Entry = ["F8_E4M3", [2, 4], new Uint8Array(8)];
const scale = (value: number): Entry => ["F32", [], new Uint8Array(Float32Array.of(value).buffer)];

function fileOf(
  tensors: Record<string, Entry>,
  metadata: Record<string, string> = {},
): Uint8Array {
  const header: Record<string, unknown> = { __metadata__: metadata };
  let offset = 0;
  for (const [name, [dtype, shape, { length }]] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + length] };
    offset += length;
  }
  const data = Uint8Array.from(Object.values(tensors).flatMap(([, , bytes]) => [...bytes]));
  return encodeSafetensors(header, data);
}

/** Opens a file of these tensors. */
function withTensors<T>(
  tensors: Record<string, Entry>,
  use: (checkpoint: Checkpoint) => T,
  metadata: Record<string, string> = {},
): T {
  return withFolder({ "model.safetensors": fileOf(tensors, metadata) }, (folder) => {
    using checkpoint = Checkpoint.open(`${folder}/model.safetensors`);
    return use(checkpoint);
  });
}

function refuse(
  tensors: Record<string, Entry>,
  message: RegExp,
  metadata: Record<string, string> = {},
): void {
  assert.throws(() => withTensors(tensors, () => {}, metadata), (error) => {
    assert.ok(error instanceof SyntaxError, String(error));
    assert.match(error.message, message);
    return true;
  });
}

Deno.test("Checkpoint.find() gives fp8 weights their scales, in either flavour of ComfyUI", () => {
  const json = new TextEncoder().encode('{"format": "float8_e4m3fn"}');
  withTensors({
    "m.scaled_fp8": ["F8_E4M3", [0], new Uint8Array(0)],
    "m.a.weight": WEIGHT,
    "m.a.scale_weight": scale(0.5),
    "m.a.scale_input": scale(3),
    "m.b.weight": WEIGHT,
    "m.b.weight_scale": ["BF16", [1], Uint8Array.of(0x00, 0x40)],
    "m.b.input_scale": scale(3),
    "m.b.comfy_quant": ["U8", [json.length], json],
    "m.plain.weight": WEIGHT,
    "m.wide.weight": ["F32", [1], new Uint8Array(4)],
    "m.wide.scale_weight": scale(1),
  }, (checkpoint) => {
    assert.deepEqual([...checkpoint.names].sort(), [
      "m.a.weight",
      "m.b.weight",
      "m.plain.weight",
      "m.wide.weight",
    ]);
    assert.equal(checkpoint.find("m.a.weight")!.scale, 0.5);
    assert.equal(checkpoint.find("m.b.weight")!.scale, 2);
    assert.equal(checkpoint.find("m.plain.weight")!.scale, undefined);
  });
});

Deno.test("Checkpoint.read() multiplies fp8 by scales of rows and of blocks, in any range", () => {
  // 1, 2, … as e4m3: 0x38 is 1, and the steps double every eight.
  const bytes = Uint8Array.from({ length: 32 }, (_, i) => 0x38 + (i % 8));
  const plain = Array.from(bytes, (byte) => 1 + (byte - 0x38) / 8);
  const cases: [
    ending: string,
    shape: number[],
    scaleOf: (row: number, column: number) => number,
  ][] = [
    ["weight_scale", [4], (row) => row],
    ["weight_scale", [4, 1], (row) => row],
    ["weight_scale_inv", [2, 2], (row, column) => 2 * (row >> 1) + (column >> 2)],
    ["scale_weight", [1, 4], (_, column) => column >> 1],
  ];
  for (const [ending, shape, scaleOf] of cases) {
    const scales = [1, 2, 4, 0.5];
    const floats = new Uint8Array(Float32Array.from(scales).buffer);
    withTensors({
      "a.weight": ["F8_E4M3", [4, 8], bytes],
      [`a.${ending}`]: ["F32", shape, floats],
    }, (checkpoint) => {
      const expected = plain.map((value, i) => value * scales[scaleOf(i >> 3, i % 8)]!);
      const found = checkpoint.find("a.weight")!;
      assert.deepEqual([found.format, found.byteLength, found.storedAs], ["BF16", 64, "F8_E4M3"]);
      assert.equal(checkpoint.byteLength, 32);
      for (const [first, count] of [[0, 32], [3, 1], [5, 20], [31, 1]] as const) {
        const range = new Uint8Array(2 * count);
        checkpoint.read("a.weight", 2 * first, range);
        assert.deepEqual(
          [...decodeFloats(range, "bf16")],
          expected.slice(first, first + count),
          `${ending} [${shape}] from ${first}`,
        );
      }
    });
  }
});

Deno.test("Checkpoint.read() takes the blocks' size from config.json, else 128×128, whose last blocks may be small", () => {
  const bytes = new Uint8Array(130 * 3).fill(0x38);
  const scales: Entry = ["F32", [2, 1], new Uint8Array(Float32Array.of(1, 2).buffer)];
  const tensors = {
    "a.weight": ["F8_E4M3", [130, 3], bytes] as Entry,
    "a.weight_scale_inv": scales,
  };
  const firstDoubled = (config: unknown) => {
    const files = { "model.safetensors": fileOf(tensors), "config.json": JSON.stringify(config) };
    return withFolder(files, (folder) => {
      using checkpoint = Checkpoint.open(folder);
      const read = new Uint8Array(2 * 130 * 3);
      checkpoint.read("a.weight", 0, read);
      return decodeFloats(read, "bf16").indexOf(2) / 3;
    });
  };
  assert.equal(firstDoubled({}), 128);
  const fp8 = (size: number[]) => ({
    quantization_config: { quant_method: "fp8", weight_block_size: size },
  });
  assert.equal(firstDoubled(fp8([100, 4])), 100);
  // 65 rows each: what divides the weight.
  assert.equal(firstDoubled(fp8([16, 16])), 65);
});

Deno.test("Checkpoint.open() refuses scales that are no positive number", () => {
  for (const value of [0, -1, NaN, Infinity]) {
    refuse({ "a.weight": WEIGHT, "a.scale_weight": scale(value) }, new RegExp(`is ${value}`));
  }
});

Deno.test("Checkpoint.open() refuses every companion of a quantised weight that it does not read", () => {
  const I8: Entry = ["I8", [2, 4], new Uint8Array(8)];
  const BF16: Entry = ["BF16", [2, 4], new Uint8Array(16)];
  const rows: Entry = ["F32", [3], new Uint8Array(Float32Array.of(1, 2, 3).buffer)];
  const companions = [
    ...["scale", "scales", "weight_scale_2", "pre_quant_scale", "weight_amax", "zero_point"],
    ...["weight_zero_point", "scale_inv", "fp8_scale", "weight_quantizer._amax", "weight.absmax"],
    ...["weight._scale", "_weight_scale", "weight:scale", "smooth_factor", "whatever"],
  ];
  for (const name of companions) {
    refuse(
      { "m.a.weight": WEIGHT, [`m.a.${name}`]: scale(1) },
      new RegExp(`"m.a.weight" \\[2, 4\\] is stored as F8_E4M3 and comes with "m.a.${name}"`),
    );
  }
  refuse({ "a.weight": WEIGHT, "a_scale": scale(1) }, /comes with "a_scale"/);
  refuse({ "a.in_proj": WEIGHT, "a.in_proj_scale": scale(1) }, /comes with "a.in_proj_scale"/);
  refuse({ "a.weight": WEIGHT, "a.weight_scale": rows }, /"a.weight_scale" \[3\], stored as F32/);
  refuse({ "a.weight": WEIGHT, "a.weight_scale": ["U8", [2, 1], new Uint8Array(2)] }, /as U8/);
  refuse({ "a.weight": I8, "a.weight_scale": scale(2) }, /is stored as I8 and comes with/);
  refuse({ "a.weight": I8, "a.weight_scale": scale(1) }, /is stored as I8 and comes with/);
  refuse({ "a.weight": BF16, "a.weight_scale_inv": scale(2) }, /stored as BF16 and comes with/);
  refuse(
    { "a.weight": WEIGHT, "a.weight_scale": scale(1), "a.scale_weight": scale(1) },
    /comes with "a.scale_weight"/,
  );
});

Deno.test("Checkpoint.open() leaves alone what only looks like a companion", () => {
  const one = scale(2);
  withTensors({
    "norm.query_norm.scale": one,
    "blocks.0.norm.weight": ["F32", [2], new Uint8Array(8)],
    "blocks.0.norm.layer_scale": one,
    "attn.k.weight": WEIGHT,
    "attn.k.bias": one,
    "attn.k_img.weight": WEIGHT,
    "attn.k_norm.scale": one,
    "post_quant_conv.weight": WEIGHT,
    "scale_shift_table": one,
    "logit_scale": one,
    "bn.weight": WEIGHT,
    "bn.running_mean": one,
  }, (checkpoint) => assert.equal([...checkpoint.names].length, 12));
});

Deno.test("Checkpoint.open() names the method of weights that are quantised otherwise", () => {
  const bytes: Entry = ["U8", [8], new Uint8Array(8)];
  const cases: [name: string, message: RegExp][] = [
    ["a.weight.quant_state.bitsandbytes__nf4", /quantised by bitsandbytes \(nf4\), which is not/],
    ["a.SCB", /bitsandbytes \(int8\)/],
    ["a.qweight", /GPTQ or AWQ/],
    ["a.weight_packed", /compressed-tensors/],
    ["a.wscales", /Nunchaku/],
    ["a.weight._data", /Quanto/],
    ["a._weight_qdata", /torchao/],
  ];
  for (const [name, message] of cases) refuse({ "a.weight": bytes, [name]: bytes }, message);
});

Deno.test("Checkpoint.open() refuses ComfyUI's formats of layers that it does not read, in tensors and in the header", () => {
  const refused: [format: unknown, message: RegExp][] = [
    [
      { format: "convrot_w4a4" },
      /is quantised as convrot_w4a4, which is not supported; take the model in fp8/,
    ],
    [{ format: "awq_w4a16" }, /is quantised as awq_w4a16/],
    [{ format: "int8_tensorwise", symmetric: true }, /has symmetric, which is not supported/],
    [
      { format: "int8_tensorwise", convrot: true, convrot_groupsize: 128 },
      /has convrot_groupsize 128/,
    ],
    [{ format: "nvfp4", convrot: true }, /has convrot, which is not supported/],
    [{ format: "float8_e4m3fn", convrot: true }, /has convrot, which is not supported/],
    [{}, /is quantised as undefined/],
  ];
  for (const [format, message] of refused) {
    const json = new TextEncoder().encode(JSON.stringify(format));
    refuse({ "a.weight": WEIGHT, "a.comfy_quant": ["U8", [json.length], json] }, message);
    const header = JSON.stringify({ format_version: "1.0", layers: { a: format } });
    refuse({ "a.weight": WEIGHT }, message, { _quantization_metadata: header });
  }
  const fp8 = { format: "float8_e5m2", full_precision_matrix_mult: true };
  const header = { _quantization_metadata: JSON.stringify({ layers: { a: fp8 } }) };
  withTensors({ "a.weight": WEIGHT, "a.weight_scale": scale(2) }, ({ find }) => void find, header);
});

Deno.test("Checkpoint.open() refuses a quantization_config whose method it does not read, or whose scales are missing", () => {
  const configs: [config: unknown, message: RegExp][] = [
    [{ quant_method: "gptq", bits: 4 }, /says that weights are quantised by gptq, 4, which is not/],
    [
      { quant_method: "torchao" },
      /quantised by torchao, which is not supported; take the model in/,
    ],
    [{ method: "svdquant" }, /quantised by svdquant/],
    [{ quant_method: "modelopt", quant_algo: "NVFP4" }, /modelopt, NVFP4/],
    [{ quant_method: "compressed-tensors", format: "pack-quantized" }, /pack-quantized/],
    [{}, /an unnamed method/],
    [[], /no JSON object/],
    [{ quant_method: "fp8" }, /"a.weight" is stored as F8_E4M3 and has no scale, though/],
  ];
  for (const [config, message] of configs) {
    const json = JSON.stringify({ quantization_config: config });
    const files = { "model.safetensors": fileOf({ "a.weight": WEIGHT }), "config.json": json };
    withFolder(files, (folder) => assert.throws(() => Checkpoint.open(folder), message));
    const header = { quantization_config: JSON.stringify(config) };
    refuse({ "a.weight": WEIGHT }, message, header);
  }
  for (const config of [null, undefined]) {
    const json = JSON.stringify({ quantization_config: config });
    const files = { "model.safetensors": fileOf({ "a.weight": WEIGHT }), "config.json": json };
    withFolder(files, (folder) => Checkpoint.open(folder)[Symbol.dispose]());
  }
});
