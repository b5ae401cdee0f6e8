import assert from "node:assert/strict";
import { encodeSafetensors, withFolder } from "../../tests/support/safetensors.ts";
import { Checkpoint } from "./checkpoint.ts";

type Entry = readonly [dtype: string, shape: readonly number[], bytes: Uint8Array];

const WEIGHT: Entry = ["F8_E4M3", [2, 4], new Uint8Array(8)];
const scale = (value: number): Entry => ["F32", [], new Uint8Array(Float32Array.of(value).buffer)];

/** Opens a file of these tensors. */
function withTensors<T>(tensors: Record<string, Entry>, use: (checkpoint: Checkpoint) => T): T {
  const header: Record<string, unknown> = {};
  let offset = 0;
  for (const [name, [dtype, shape, { length }]] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + length] };
    offset += length;
  }
  const data = Uint8Array.from(Object.values(tensors).flatMap(([, , bytes]) => [...bytes]));
  return withFolder({ "model.safetensors": encodeSafetensors(header, data) }, (folder) => {
    using checkpoint = Checkpoint.open(`${folder}/model.safetensors`);
    return use(checkpoint);
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

Deno.test("Checkpoint.open() refuses scales that are no positive number, or mean what is not read", () => {
  const cases: [Record<string, Entry>, RegExp][] = [
    [{ "a.weight": WEIGHT, "a.scale_weight": scale(0) }, /scale "a.scale_weight" is 0/],
    [{ "a.weight": WEIGHT, "a.scale_weight": scale(-1) }, /is -1/],
    [{ "a.weight": WEIGHT, "a.scale_weight": scale(NaN) }, /is NaN/],
    [{ "a.weight": WEIGHT, "a.scale_weight": scale(Infinity) }, /is Infinity/],
    [
      { "a.weight": WEIGHT, "a.weight_scale": ["F32", [2], new Uint8Array(8)] },
      /has the shape \[2\] and type F32; one number per tensor is read/,
    ],
    [{ "a.weight": WEIGHT, "a.weight_scale": ["I32", [], new Uint8Array(4)] }, /type I32/],
    [{ "a.weight": WEIGHT, "a.weight_scale_2": scale(1) }, /has a "weight_scale_2"/],
    [{ "a.weight": WEIGHT, "a.pre_quant_scale": scale(1) }, /has a "pre_quant_scale"/],
    [
      { "a.weight": ["I8", [2, 4], new Uint8Array(8)], "a.weight_scale": scale(2) },
      /stored as I8 and has a scale; scales are read for fp8 only/,
    ],
  ];
  for (const [tensors, message] of cases) {
    assert.throws(() => withTensors(tensors, () => {}), (error) => {
      assert.ok(error instanceof SyntaxError);
      assert.match(error.message, message);
      return true;
    });
  }
});
