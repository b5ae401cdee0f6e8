/**
 * Weights that a golden does not store: drawn again from its seed, as `tools/reference/seeded.py` drew them. So goldens
 * can have the widths of real models.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { cp } from "node:fs/promises";
import { TorchGenerator } from "../models/noise.ts";
import { Checkpoint, type DType, elementCount } from "../runtime/mod.ts";
import { safetensorsOf, type TensorValues, withFolder } from "./safetensors.ts";

/** What `seeded.json` holds. */
interface SeededWeights {
  readonly seed: number;
  readonly dtype: "F32" | "F16" | "BF16";
  /** In the order in which they are drawn. */
  readonly tensors: readonly (readonly [
    name: string,
    shape: readonly number[],
    mean: number,
    std: number,
  ])[];
}

/**
 * Calls `use` with the checkpoint of a golden, and removes it afterwards.
 *
 * @param folder with `seeded.json`
 */
export async function withSeededCheckpoint<T>(
  folder: string,
  use: (checkpoint: Checkpoint) => Promise<T>,
): Promise<T> {
  const file = seededFile(`${folder}/seeded.json`);
  return await withFolder({ "diffusion_pytorch_model.safetensors": file }, async (path) => {
    using checkpoint = Checkpoint.open(path);
    return await use(checkpoint);
  });
}

/**
 * Calls `use` with a copy of a model folder whose components have `seeded.json` in place of weights, and removes it
 * afterwards.
 *
 * @param folder with `model_index.json`
 */
export async function withSeededModel<T>(
  folder: string,
  use: (folder: string) => Promise<T>,
): Promise<T> {
  const copy = await Deno.makeTempDir();
  try {
    await cp(folder, copy, { recursive: true });
    for (const component of Deno.readDirSync(copy)) {
      const path = `${copy}/${component.name}`;
      if (!component.isDirectory || !existsSync(`${path}/seeded.json`)) continue;
      const file = seededFile(`${path}/seeded.json`);
      await Deno.writeFile(`${path}/model.safetensors`, file);
    }
    return await use(copy);
  } finally {
    await Deno.remove(copy, { recursive: true });
  }
}

/** Files by the text that they were drawn by: drawing takes a second for five million numbers. */
const drawn = new Map<string, Uint8Array>();

function seededFile(path: string): Uint8Array {
  const text = Deno.readTextFileSync(path);
  let file = drawn.get(text);
  if (!file) drawn.set(text, file = safetensorsOf(seededTensors(text)));
  return file;
}

function seededTensors(text: string): Record<string, TensorValues> {
  const { seed, dtype, tensors }: SeededWeights = JSON.parse(text);
  const generator = new TorchGenerator(seed);
  const result: Record<string, TensorValues> = {};
  for (const [name, shape, mean, std] of tensors) {
    const values = generator.randn(elementCount(shape));
    const [factor, offset] = [Math.fround(std), Math.fround(mean)];
    for (let i = 0; i < values.length; i++) {
      values[i] = Math.fround(values[i]! * factor) + offset;
    }
    result[name] = { dtype: dtype.toLowerCase() as DType, shape, values };
  }
  return result;
}
