/** Models and LoRAs as large as one likes, of random numbers: for what depends on sizes alone. */

import { join } from "node:path";
import type { AdaptableModule } from "../../models/mod.ts";
import { BUNDLED } from "./machine.ts";

/** Sizes of a transformer like Wan's. */
interface SyntheticSizes {
  readonly heads: number;
  readonly layers: number;
  readonly ffnDim: number;
}

type Shapes = Readonly<Record<string, readonly number[]>>;

/** Numbers that are drawn once and repeated; no power of two, so that rows differ. */
const POOL_LENGTH = 999_983;

/**
 * Writes a model: the bundled one with another transformer, in f16.
 *
 * @returns bytes of the transformer
 */
export async function writeModel(folder: string, sizes: SyntheticSizes): Promise<number> {
  const { heads, layers, ffnDim } = sizes;
  for (const name of ["scheduler", "text_encoder", "tokenizer", "vae"]) {
    await Deno.symlink(join(BUNDLED, name), join(folder, name));
  }
  await Deno.copyFile(join(BUNDLED, "model_index.json"), join(folder, "model_index.json"));
  const transformer = join(folder, "transformer");
  await Deno.mkdir(transformer);
  const config = JSON.parse(await Deno.readTextFile(join(BUNDLED, "transformer/config.json")));
  Object.assign(config, {
    num_attention_heads: heads,
    attention_head_dim: 128,
    num_layers: layers,
    ffn_dim: ffnDim,
  });
  await Deno.writeTextFile(join(transformer, "config.json"), JSON.stringify(config));
  const shapes = transformerShapes(heads * 128, config);
  return await writeTensors(
    join(transformer, "diffusion_pytorch_model.safetensors"),
    shapes,
    0.02,
  );
}

/**
 * Writes a LoRA of all linear layers, in f16, with the names of diffusers.
 *
 * @returns its bytes
 */
export async function writeLora(
  path: string,
  modules: readonly AdaptableModule[],
  rank: number,
): Promise<number> {
  const shapes: Record<string, readonly number[]> = {};
  for (const { name, shape } of modules) {
    if (shape.length !== 2) continue;
    shapes[`transformer.${name}.lora_A.weight`] = [rank, shape[1]!];
    shapes[`transformer.${name}.lora_B.weight`] = [shape[0]!, rank];
  }
  return await writeTensors(path, shapes, 0.01);
}

function transformerShapes(
  dim: number,
  {
    ffn_dim: ffnDim,
    num_layers: layers,
    in_channels,
    out_channels,
    text_dim,
    freq_dim,
    patch_size,
  }: Record<string, number> & { patch_size: number[] },
): Shapes {
  const shapes: Record<string, readonly number[]> = {};
  const layer = (name: string, ...shape: number[]) => {
    shapes[`${name}.weight`] = shape;
    shapes[`${name}.bias`] = shape.slice(0, 1);
  };
  layer("patch_embedding", dim, in_channels!, ...patch_size);
  layer("condition_embedder.time_embedder.linear_1", dim, freq_dim!);
  layer("condition_embedder.time_embedder.linear_2", dim, dim);
  layer("condition_embedder.time_proj", 6 * dim, dim);
  layer("condition_embedder.text_embedder.linear_1", dim, text_dim!);
  layer("condition_embedder.text_embedder.linear_2", dim, dim);
  for (let i = 0; i < layers!; i++) {
    const block = `blocks.${i}`;
    for (const attention of ["attn1", "attn2"]) {
      for (const name of ["to_q", "to_k", "to_v", "to_out.0"]) {
        layer(`${block}.${attention}.${name}`, dim, dim);
      }
      for (const name of ["norm_q", "norm_k"]) {
        shapes[`${block}.${attention}.${name}.weight`] = [dim];
      }
    }
    layer(`${block}.norm2`, dim);
    layer(`${block}.ffn.net.0.proj`, ffnDim!, dim);
    layer(`${block}.ffn.net.2`, dim, ffnDim!);
    shapes[`${block}.scale_shift_table`] = [1, 6, dim];
  }
  shapes["scale_shift_table"] = [1, 2, dim];
  layer("proj_out", out_channels! * patch_size.reduce((product, size) => product * size, 1), dim);
  return shapes;
}

/** Writes f16 tensors of uniform numbers, piece by piece. */
async function writeTensors(path: string, shapes: Shapes, magnitude: number): Promise<number> {
  const header: Record<string, unknown> = {};
  let total = 0;
  for (const [name, shape] of Object.entries(shapes)) {
    const bytes = 2 * shape.reduce((product, size) => product * size, 1);
    header[name] = { dtype: "F16", shape, data_offsets: [total, total + bytes] };
    total += bytes;
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(text.length), true);
  using file = await Deno.open(path, { create: true, write: true, truncate: true });
  const write = async (bytes: Uint8Array) => {
    for (let done = 0; done < bytes.length;) done += await file.write(bytes.subarray(done));
  };
  await write(length);
  await write(text);
  const values = Float16Array.from(
    { length: POOL_LENGTH },
    () => (2 * Math.random() - 1) * magnitude,
  );
  const pool = new Uint8Array(values.buffer);
  for (let left = total; left > 0; left -= pool.length) {
    await write(pool.subarray(0, Math.min(left, pool.length)));
  }
  return total;
}
