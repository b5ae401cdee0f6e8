import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { encodeGguf } from "../../../tests/support/gguf.ts";
import {
  encodeSafetensors,
  safetensorsOf,
  withFolder,
} from "../../../tests/support/safetensors.ts";
import {
  Checkpoint,
  dequantize,
  encodeElements,
  quantize as blocksOf,
} from "../../../runtime/mod.ts";
import { randomNormal } from "../../../runtime/ops/ndarray.ts";
import { quantize } from "../../file_tools.ts";
import { openPipeline } from "../../mod.ts";
import { quantizeCheckpoint, type QuantizedType } from "./mod.ts";

const VALUES = Float32Array.from(randomNormal([160, 512], 3, 0.05).data);
const MATRIX = "blocks.0.attn.to_q.weight";
const KERNEL = { dtype: "f32", shape: [4, 3, 1, 2, 2], values: VALUES.subarray(0, 48) } as const;

const TENSORS = {
  [MATRIX]: { dtype: "f32", shape: [160, 512], values: VALUES },
  "blocks.0.norm.weight": { dtype: "bf16", shape: [8], values: [1, 2, 3, 4, 5, 6, 7, 8] },
  "patch_embedding.weight": KERNEL,
} as const;
const FILES = { "a.safetensors": safetensorsOf(TENSORS) };

function bytesOf(checkpoint: Checkpoint, name: string): Uint8Array {
  const bytes = new Uint8Array(checkpoint.find(name)!.byteLength);
  checkpoint.read(name, 0, bytes);
  return bytes;
}

Deno.test("quantizeCheckpoint() writes a GGUF file with the bytes of quantize(), and all else exact", () =>
  withFolder(FILES, async (folder) => {
    const output = join(folder, "new/a.gguf");
    const fractions: number[] = [];
    const { bytes, formats } = await quantizeCheckpoint(join(folder, "a.safetensors"), output, {
      type: "q6_k",
      onProgress: ({ fraction }) => fractions.push(fraction),
    });
    assert.deepEqual(formats, [["Q6_K", 1], ["F32", 2]]);
    assert.equal(Deno.statSync(output).size, bytes);
    assert.ok(fractions.at(-1)! > 0.9);
    using made = Checkpoint.open(output);
    assert.deepEqual(bytesOf(made, MATRIX), blocksOf(VALUES, "q6_k"));
    assert.deepEqual(made.find("patch_embedding.weight")!.shape, KERNEL.shape);
    const kernel = new Float32Array(bytesOf(made, "patch_embedding.weight").buffer);
    assert.deepEqual(kernel, KERNEL.values);
    const norm = new Float32Array(bytesOf(made, "blocks.0.norm.weight").buffer);
    assert.deepEqual([...norm], [1, 2, 3, 4, 5, 6, 7, 8]);
  }));

Deno.test("quantizeCheckpoint() writes fp8 with a scale for each matrix, as it is read again", () =>
  withFolder(FILES, async (folder) => {
    const output = join(folder, "b.safetensors");
    await quantizeCheckpoint(join(folder, "a.safetensors"), output, { type: "f8_e4m3" });
    using made = Checkpoint.open(output);
    assert.deepEqual([...made.names].sort(), Object.keys(TENSORS).sort());
    const { format, scale } = made.find(MATRIX)!;
    const largest = VALUES.reduce((max, value) => Math.max(max, Math.abs(value)), 0);
    assert.deepEqual([format, scale], ["F8_E4M3", Math.fround(largest / 448)]);
    const values = dequantize(bytesOf(made, MATRIX), "f8_e4m3", scale);
    const worst = values.reduce((max, value, i) => Math.max(max, Math.abs(value - VALUES[i]!)), 0);
    assert.ok(worst <= largest / 28 + 1e-6, `off by ${worst} of ${largest}`);
  }));

Deno.test("quantizeCheckpoint() casts to fp8 as it is where no scales are wanted", () =>
  withFolder(FILES, async (folder) => {
    const output = join(folder, "b.safetensors");
    const options = { type: "f8_e4m3", scales: false } as const;
    await quantizeCheckpoint(join(folder, "a.safetensors"), output, options);
    using made = Checkpoint.open(output);
    assert.deepEqual([...made.names].sort(), Object.keys(TENSORS).sort());
    assert.equal(made.find(MATRIX)!.scale ?? 1, 1);
    const values = dequantize(bytesOf(made, MATRIX), "f8_e4m3", 1);
    // Three bits after the first, and below 2^-6 steps of 2^-9.
    values.forEach((value, i) => {
      const error = Math.abs(value - VALUES[i]!);
      assert.ok(error <= Math.max(Math.abs(VALUES[i]!) / 16, 2 ** -10) + 1e-9, `${error} at ${i}`);
    });
  }));

Deno.test("quantizeCheckpoint() leaves nothing behind when it is stopped or refuses", () =>
  withFolder(FILES, async (folder) => {
    const input = join(folder, "a.safetensors");
    const output = join(folder, "c.gguf");
    const refuse = async (path: string, type: "q4_k" | "f8_e4m3", message: RegExp) => {
      await assert.rejects(quantizeCheckpoint(input, path, { type }), message);
    };
    const stopped = quantizeCheckpoint(input, output, {
      type: "q4_k",
      signal: AbortSignal.abort(),
    });
    await assert.rejects(stopped, { name: "AbortError" });
    await refuse(join(folder, "c.bin"), "q4_k", /Cannot write q4_k .* ends with \.gguf$/);
    await refuse(output, "f8_e4m3", /Cannot write f8_e4m3 .* ends with \.safetensors/);
    await refuse(input, "f8_e4m3", /it is the file that is read/);
    assert.deepEqual([...Deno.readDirSync(folder)].map(({ name }) => name), ["a.safetensors"]);
  }));

Deno.test("quantizeCheckpoint() refuses NaN with the tensor's name", () =>
  withFolder({
    "a.safetensors": safetensorsOf({
      [MATRIX]: {
        dtype: "f32",
        shape: [64, 256],
        values: VALUES.slice(0, 2 ** 14).fill(NaN, 7, 8),
      },
    }),
  }, async (folder) => {
    const made = quantizeCheckpoint(join(folder, "a.safetensors"), join(folder, "b.gguf"), {
      type: "q8_0",
    });
    await assert.rejects(made, /Cannot convert tensor "blocks.0.attn.to_q.weight": it holds NaN/);
  }));

Deno.test("a copy of a component keeps its config.json, and stands in for it", () =>
  withFolder({}, async (folder) => {
    const bundled = new URL("../../bundled/", import.meta.url).pathname;
    const output = join(folder, "t.gguf");
    await quantizeCheckpoint(join(bundled, "transformer"), output, { type: "q4_k" });
    assert.ok(Deno.statSync(output).size < 2.8e6);
    using _pipeline = await openPipeline(bundled, { transformer: output });
    using made = Checkpoint.open(output);
    using original = Checkpoint.open(join(bundled, "transformer"));
    assert.deepEqual([...made.names], [...original.names]);
  }));

Deno.test("quantizeCheckpoint() takes GGUF files that are not quantised, and keeps what they are called", () =>
  withFolder({
    "a.gguf": encodeGguf({
      metadata: [["general.architecture", { text: "wan" }]],
      tensors: [[MATRIX, { shape: [160, 512], data: encodeElements(VALUES, "f32") }]],
    }),
  }, async (folder) => {
    const [input, output] = [join(folder, "a.gguf"), join(folder, "b.gguf")];
    await quantizeCheckpoint(input, output, { type: "q8_0" });
    using made = Checkpoint.open(output);
    assert.deepEqual(bytesOf(made, MATRIX), blocksOf(VALUES, "q8_0"));
    assert.equal(made.metadata.get("general.architecture"), "wan");
    const again = quantizeCheckpoint(output, join(folder, "c.gguf"), { type: "q4_0" });
    await assert.rejects(again, /"blocks.0.attn.to_q.weight" is Q8_0 already; give the file/);
  }));

Deno.test("quantizeCheckpoint() copies vectors with NaN and leaves out what is no weight, and says so", () =>
  withFolder({
    "a.safetensors": safetensorsOf({
      ...TENSORS,
      "norm_final.weight": { dtype: "bf16", shape: [3], values: [NaN, 1, Infinity] },
    }),
    "tokenizer.safetensors": encodeSafetensors({
      spiece_model: { dtype: "U8", shape: [4], data_offsets: [0, 4] },
      "a.weight": { dtype: "F32", shape: [1], data_offsets: [4, 8] },
    }, new Uint8Array(8)),
  }, async (folder) => {
    const output = join(folder, "a.gguf");
    const copy = (name: string) => quantizeCheckpoint(join(folder, name), output, { type: "q8_0" });
    const { notes } = await copy("a.safetensors");
    assert.match(notes.join(), /^Copied "norm_final\.weight" with the NaN or infinity in it/);
    using made = Checkpoint.open(output);
    const norm = new Float32Array(bytesOf(made, "norm_final.weight").buffer);
    assert.deepEqual([...norm], [NaN, 1, Infinity]);
    const other = await copy("tokenizer.safetensors");
    assert.deepEqual(other.notes, [
      'Left out "spiece_model": it is no weight; name the file that has it with --tokenizer',
    ]);
  }));

Deno.test("quantizeCheckpoint() refuses NaN in a matrix, weights of types that are not read, and LoRAs", () =>
  withFolder({
    "nan.safetensors": safetensorsOf({
      [MATRIX]: { ...TENSORS[MATRIX], values: VALUES.map((value, i) => i === 7 ? NaN : value) },
    }),
    "u8.safetensors": encodeSafetensors({
      "a.weight": { dtype: "U8", shape: [4], data_offsets: [0, 4] },
    }, new Uint8Array(4)),
    "lora.safetensors": safetensorsOf({
      "a.lora_A.weight": { dtype: "f32", shape: [1, 2], values: [1, 2] },
      "a.lora_B.weight": { dtype: "f32", shape: [2, 1], values: [1, 2] },
    }),
  }, async (folder) => {
    const copy = (name: string, output = "a.gguf", type: QuantizedType = "q8_0") =>
      quantizeCheckpoint(join(folder, name), join(folder, output), { type });
    await assert.rejects(copy("nan.safetensors"), /to_q\.weight": it holds NaN/);
    await assert.rejects(
      copy("u8.safetensors"),
      /"a\.weight" into a GGUF file: it is stored as U8/,
    );
    for (const [output, type] of [["a.gguf", "bf16"], ["a.safetensors", "f8_e4m3"]] as const) {
      await assert.rejects(
        copy("lora.safetensors", output, type),
        /it is a LoRA, and LoRAs are read/,
      );
    }
    await copy("lora.safetensors", "b.safetensors", "bf16");
  }));

Deno.test("quantize() names the architecture of GGUF files, and keeps what its source states", () =>
  withFolder({
    "encoder.gguf": encodeGguf({
      metadata: [
        ["general.architecture", { text: "qwen3" }],
        ["qwen3.rope.freq_base", { f32: 5e6 }],
        ["qwen3.block_count", { u32: 1 }],
        ["general.file_type", { u32: 1 }],
      ],
      tensors: [["a.weight", { shape: [1], data: new Uint8Array(4) }]],
    }),
  }, async (folder) => {
    const transformer = fileURLToPath(new URL("../../bundled/transformer", import.meta.url));
    const output = join(folder, "a.gguf");
    const metadataOf = async (path: string) => {
      await quantize(path, output, { type: "q8_0" });
      using made = Checkpoint.open(output);
      return made.metadata;
    };
    assert.equal((await metadataOf(transformer)).get("general.architecture"), "wan");
    const kept = await metadataOf(join(folder, "encoder.gguf"));
    assert.deepEqual(
      ["general.architecture", "qwen3.rope.freq_base", "qwen3.block_count", "general.file_type"]
        .map((key) => kept.get(key)),
      ["qwen3", 5e6, 1, undefined],
    );
  }));
