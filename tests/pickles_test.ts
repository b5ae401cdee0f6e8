/** Files that PyTorch saved, wherever files of weights are taken. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { quantizeCheckpoint } from "../models/checkpoints/quantize/mod.ts";
import { recognise } from "../models/checkpoints/recognise.ts";
import { ORIGINAL_WAN } from "../models/families/wan/layouts.ts";
import { inspectLora } from "../models/inspect/lora.ts";
import { readLora } from "../models/lora/read_lora.ts";
import { COMPACT_UPSCALER_FORMAT } from "../models/upscalers/upscaler.ts";
import { Checkpoint } from "../runtime/mod.ts";
import { madeUpComponent } from "./support/adaptable.ts";

const FOLDER = fileURLToPath(new URL("goldens/pickles", import.meta.url));
const WAN = madeUpComponent("Wan", { "blocks.0.attn1.to_q": [8, 8] }, [ORIGINAL_WAN]);

Deno.test("readLora() and inspectLora() take a LoRA that PyTorch saved", async () => {
  const path = join(FOLDER, "lora.pt");
  using expected = Checkpoint.open(join(FOLDER, "values.safetensors"));
  const { changes, unmatchedKeys } = await readLora(path, [WAN]);
  assert.deepEqual([changes.length, changes[0]!.module, unmatchedKeys], [
    1,
    "blocks.0.attn1.to_q",
    [],
  ]);
  const [change] = changes[0]!.weight;
  assert.ok(change?.kind === "low-rank");
  for (const [name, { bytes }] of [["A", change.down], ["B", change.up]] as const) {
    const known = new Uint8Array(bytes.byteLength);
    expected.read(`lora.pt.transformer.blocks.0.attn1.to_q.lora_${name}.weight`, 0, known);
    assert.deepEqual([...bytes], [...known]);
  }
  assert.deepEqual((await inspectLora(path)).ranks, [2]);
});

Deno.test("an upscaler that PyTorch saved is known, and quantizeCheckpoint() copies it to safetensors", async () => {
  const path = join(FOLDER, "averaged.pth");
  const folder = await Deno.makeTempDir();
  try {
    const output = join(folder, "upscaler.safetensors");
    await quantizeCheckpoint(path, output, { type: "bf16" });
    for (const file of [path, output]) {
      using checkpoint = Checkpoint.open(file);
      const [{ format, tensors }] = recognise(checkpoint, [COMPACT_UPSCALER_FORMAT]) as [
        ReturnType<typeof recognise>[0],
      ];
      const { num_feat, num_block, scale } = format.config(tensors);
      assert.deepEqual([num_feat, num_block, scale], [4, 1, 2]);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
