/**
 * Weights that a golden does not store: drawn again from its seed, as `tools/reference/seeded.py` drew them. So goldens
 * can have the widths of real models.
 *
 * @module
 */
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
  const file = safetensorsOf(seededTensors(`${folder}/seeded.json`));
  return await withFolder({ "diffusion_pytorch_model.safetensors": file }, async (path) => {
    using checkpoint = Checkpoint.open(path);
    return await use(checkpoint);
  });
}

function seededTensors(path: string): Record<string, TensorValues> {
  const { seed, dtype, tensors }: SeededWeights = JSON.parse(Deno.readTextFileSync(path));
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
