import { openFile } from "../../platform/mod.ts";
import assert from "node:assert/strict";
import fc from "fast-check";
import { LoraError } from "../../models/lora/lora_error.ts";
import { tensorsOf } from "../../models/lora/read_lora.ts";
import type { Lora, LoraTensor } from "../../models/lora/types.ts";
import { ORIGINAL_FLUX2 } from "../../models/families/flux2/layouts.ts";
import { elementCount, readSafetensorsHeader } from "../../runtime/mod.ts";
import { madeUpComponent } from "../support/adaptable.ts";
import { loraFile, numbers, readBytes, type Tensors } from "../support/lora_files.ts";
import { changeReference, randomTensor } from "../support/lora_reference.ts";
import { encodeSafetensors, withFolder } from "../support/safetensors.ts";

const MODEL = madeUpComponent("FLUX.2", {
  "transformer_blocks.0.attn.to_q": [4, 4],
  "transformer_blocks.0.attn.to_k": [4, 4],
  "transformer_blocks.0.attn.to_v": [4, 4],
  "transformer_blocks.0.ff.linear_in": [8, 4],
  "single_transformer_blocks.0.attn.to_qkv_mlp_proj": [12, 4],
  "conv": [4, 2, 3, 3],
  "norm_out.linear": [8, 4],
}, [ORIGINAL_FLUX2]);

const bf16 = { dtype: "bf16" } as const;

/** Inputs of every linear layer. */
const COLUMNS = 4;

/** Every kind of change, so that every way through the reader is mutated. */
const TENSORS: Tensors = {
  "diffusion_model.double_blocks.0.img_attn.qkv.lora_A.weight": randomTensor([2, 4], 1, bf16),
  "diffusion_model.double_blocks.0.img_attn.qkv.lora_B.weight": randomTensor([12, 2], 2),
  "diffusion_model.double_blocks.0.img_attn.qkv.alpha": numbers(1),
  "transformer.transformer_blocks.0.ff.linear_in.hada_w1_a": randomTensor([8, 2], 3),
  "transformer.transformer_blocks.0.ff.linear_in.hada_w1_b": randomTensor([2, 4], 4),
  "transformer.transformer_blocks.0.ff.linear_in.hada_w2_a": randomTensor([8, 2], 5),
  "transformer.transformer_blocks.0.ff.linear_in.hada_w2_b": randomTensor([2, 4], 6),
  "transformer.transformer_blocks.0.ff.linear_in.dora_scale": randomTensor([8, 1], 7),
  "lora_unet_single_blocks_0_linear1.lokr_w1": randomTensor([3, 2], 8),
  "lora_unet_single_blocks_0_linear1.lokr_w2_a": randomTensor([4, 1], 9),
  "lora_unet_single_blocks_0_linear1.lokr_w2_b": randomTensor([1, 2], 10),
  "conv.lora_down.weight": randomTensor([2, 2, 1, 1], 11),
  "conv.lora_mid.weight": randomTensor([2, 2, 3, 3], 12),
  "conv.lora_up.weight": randomTensor([4, 2, 1, 1], 13),
  "final_layer.adaLN_modulation.1.diff": randomTensor([8, 4], 14),
  "final_layer.adaLN_modulation.1.diff_b": randomTensor([8], 15),
};
const WHOLE = loraFile(TENSORS);
const DATA_START = 8 + new DataView(WHOLE.buffer).getUint32(0, true);
const HEADER = JSON.parse(new TextDecoder().decode(WHOLE.subarray(8, DATA_START)));
const DATA = WHOLE.subarray(DATA_START);

/** Reads a LoRA: what it gives must then be right, or the refusal be one sentence. */
async function readOrRefuse(bytes: Uint8Array, config?: string): Promise<"read" | "refused"> {
  let lora: Lora;
  try {
    lora = await readBytes(bytes, [MODEL], config === undefined ? {} : { config });
  } catch (error) {
    assert.ok(error instanceof LoraError, `${(error as Error).stack}`);
    assert.match(error.message, /^Cannot (?:read|use) [^\n]{1,1500}$/);
    for (const problem of error.problems) assert.ok(problem.length < 2000 && problem.length > 0);
    return "refused";
  }
  checkRight(lora, bytes);
  return "read";
}

/** Every change fits its module, every number is finite, every tensor is one of the file, and no key is lost. */
function checkRight({ changes, unmatchedKeys }: Lora, bytes: Uint8Array): void {
  const { tensors } = withFolder({ a: bytes }, (folder) => {
    using file = openFile(`${folder}/a`);
    return readSafetensorsHeader(file, "a");
  });
  const stored = tensors.values().map(({ byteOffset, byteLength }) =>
    bytes.subarray(byteOffset, byteOffset + byteLength).toString()
  ).toArray();
  for (const { module: name, weight, bias, magnitude } of changes) {
    const module = MODEL.modules.find((each) => each.name === name)!;
    const rows = module.shape[0]!;
    for (const change of weight) {
      const delta = changeReference(change, rows);
      assert.equal(delta.length, elementCount(module.shape), name);
      assert.ok(Number.isFinite(change.scale), name);
      for (const tensor of tensorsOf(change)) checkTensor(tensor);
    }
    for (const [tensor, length] of [[bias, rows], [magnitude?.lengths, undefined]] as const) {
      if (!tensor) continue;
      checkTensor(tensor);
      if (length) assert.deepEqual(tensor.shape, [length]);
    }
    // What is neither multiplied out nor put together again lies in the file as it is.
    const isPlain = name !== "conv" && name !== "norm_out.linear";
    if (!isPlain) continue;
    for (const tensor of weight.flatMap(tensorsOf)) {
      const text = tensor.bytes.toString();
      assert.ok(stored.some((each) => each.includes(text)), `${name}: bytes that the file lacks`);
    }
  }
  for (const key of unmatchedKeys) assert.ok(tensors.has(key));
  assert.equal(new Set(unmatchedKeys).size, unmatchedKeys.length);
}

function checkTensor({ shape, dtype, bytes }: LoraTensor): void {
  assert.equal(bytes.byteLength, elementCount(shape) * (dtype === "f32" ? 4 : 2));
  assert.ok(bytes.byteLength > 0);
}

Deno.test("readLora() refuses a file that ends early, wherever that is", async () => {
  assert.equal(await readOrRefuse(WHOLE), "read");
  for (let length = 0; length < WHOLE.length; length += 7) {
    assert.equal(await readOrRefuse(WHOLE.slice(0, length)), "refused", `${length} bytes`);
  }
});

Deno.test("readLora() reads or refuses a file with any bytes of it changed", async () => {
  const change = fc.tuple(fc.nat(WHOLE.length - 1), fc.nat(255));
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 6 }), async (changes) => {
      const bytes = WHOLE.slice();
      for (const [at, value] of changes) bytes[at] = value;
      await readOrRefuse(bytes);
    }),
    { numRuns: 500 },
  );
});

Deno.test("readLora() refuses any of its tensors with another number of elements in a dimension", async () => {
  const key = fc.constantFrom(...Object.keys(TENSORS));
  const shape = fc.array(fc.integer({ min: 0, max: 13 }), { maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(key, shape, async (name, sizes) => {
      const stored = HEADER[name];
      const bytes = elementCount(sizes) * (stored.dtype === "F32" ? 4 : 2);
      // At the end of the file, so that sizes and offsets agree and only the shape is wrong.
      const data = new Uint8Array(DATA.length + bytes);
      data.set(DATA);
      const offsets = [DATA.length, DATA.length + bytes];
      const header = { ...HEADER, [name]: { ...stored, shape: sizes, data_offsets: offsets } };
      const isSame = sizes.filter((size) => size !== 1).join() ===
        stored.shape.filter((size: number) => size !== 1).join();
      const result = await readOrRefuse(encodeSafetensors(header, data));
      // As many lengths as the module has columns are those of the columns.
      const isOfColumns = name.endsWith(".dora_scale") && elementCount(sizes) === COLUMNS;
      if (!isSame && !isOfColumns && elementCount(sizes) !== elementCount(stored.shape)) {
        assert.equal(result, "refused", `${name} of [${sizes}]`);
      }
    }),
    { numRuns: 500 },
  );
});

Deno.test("readLora() reads or refuses a file with keys left out, renamed and exchanged", async () => {
  const keys = Object.keys(TENSORS);
  const tails = ["lora_A.weight", "lora_up.weight", "alpha", "diff", "hada_w1_a", "lokr_w1", "x"];
  const edit = fc.record({
    key: fc.constantFrom(...keys),
    to: fc.oneof(
      fc.constant(undefined),
      fc.constantFrom(...keys),
      fc.string(),
      fc.tuple(fc.constantFrom(...keys), fc.constantFrom(...tails)).map(([key, tail]) =>
        key.replace(/[^.]+(\.weight)?$/, tail)
      ),
    ),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(edit, { minLength: 1, maxLength: 5 }), async (edits) => {
      const header = { ...HEADER };
      for (const { key, to } of edits) {
        const entry = header[key];
        delete header[key];
        if (to !== undefined && entry && !Object.hasOwn(header, to)) header[to] = entry;
      }
      await readOrRefuse(encodeSafetensors(header, DATA));
    }),
    { numRuns: 500 },
  );
});

Deno.test("readLora() reads or refuses with any settings beside the file", async () => {
  const value = fc.oneof(
    fc.jsonValue(),
    fc.constantFrom("LORA", "all", "none", true, 2, -1, 1e308),
  );
  const field = fc.constantFrom(
    ...["peft_type", "r", "lora_alpha", "alpha", "rank_pattern", "alpha_pattern", "use_rslora"],
    ...["use_dora", "bias", "init_lora_weights", "modules_to_save", "layer_replication"],
  );
  const settings = fc.oneof(
    fc.dictionary(field, value).map((fields) => JSON.stringify(fields)),
    fc.json(),
    fc.string(),
  );
  await fc.assert(
    fc.asyncProperty(settings, async (config) => {
      await readOrRefuse(WHOLE, config);
    }),
    { numRuns: 300 },
  );
});
