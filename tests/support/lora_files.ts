/** LoRA files made by hand or renamed, and read. */
import assert from "node:assert/strict";
import { readLora } from "../../models/lora/read_lora.ts";
import type { AdaptableComponent, Lora, LoraTensor } from "../../models/lora/types.ts";
import { encodeSafetensors, withFolder } from "./safetensors.ts";
import { tensorsOf } from "./single_files.ts";

/** Tensors by key. */
export type Tensors = Readonly<Record<string, LoraTensor>>;

/** What lies beside the tensors, and how they are read. */
export interface FileOptions {
  readonly metadata?: Record<string, string>;
  /** Contents of `adapter_config.json`; text as it is. */
  readonly config?: unknown;
  readonly alpha?: number;
  /** Of the file; PEFT's by default. */
  readonly name?: string;
}

/** A safetensors file of these tensors. */
export function loraFile(tensors: Tensors, metadata?: Record<string, string>): Uint8Array {
  const header: Record<string, unknown> = metadata ? { __metadata__: metadata } : {};
  let offset = 0;
  for (const [key, { dtype, shape, bytes }] of Object.entries(tensors)) {
    const end = offset + bytes.byteLength;
    header[key] = { dtype: dtype.toUpperCase(), shape, data_offsets: [offset, end] };
    offset = end;
  }
  const data = new Uint8Array(offset);
  let at = 0;
  for (const { bytes } of Object.values(tensors)) {
    data.set(bytes, at);
    at += bytes.byteLength;
  }
  return encodeSafetensors(header, data);
}

/** Reads a file of these bytes. */
export function readBytes(
  bytes: Uint8Array,
  components: readonly AdaptableComponent[],
  { config, alpha, name = "adapter_model.safetensors" }: Omit<FileOptions, "metadata"> = {},
): Promise<Lora> {
  const files: Record<string, Uint8Array | string> = { [name]: bytes };
  if (config !== undefined) {
    files["adapter_config.json"] = typeof config === "string" ? config : JSON.stringify(config);
  }
  return withFolder(files, (folder) =>
    readLora(
      `${folder}/${name}`,
      components,
      alpha === undefined ? {} : { alpha },
    ));
}

/** Reads a file of these tensors. */
export function readTensors(
  tensors: Tensors,
  components: readonly AdaptableComponent[],
  { metadata, ...options }: FileOptions = {},
): Promise<Lora> {
  return readBytes(loraFile(tensors, metadata), components, options);
}

/** Reads a file of f16 as if its tensors had other names, every one of which leads to a layer. */
export async function readRenamed(
  path: string,
  components: readonly AdaptableComponent[],
  rename: (key: string) => string,
): Promise<Lora> {
  const tensors = [...tensorsOf(path)].map(([name, { shape, bytes }]) =>
    [rename(name), { dtype: "f16" as const, shape, bytes }] as const
  );
  const lora = await readTensors(Object.fromEntries(tensors), components);
  assert.deepEqual(lora.unmatchedKeys, []);
  return lora;
}

/** A vector of f32, or a number without dimensions. */
export function numbers(...values: number[]): LoraTensor {
  return {
    shape: values.length === 1 ? [] : [values.length],
    dtype: "f32",
    bytes: new Uint8Array(Float32Array.from(values).buffer),
  };
}
