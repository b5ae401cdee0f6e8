/** Safetensors files for tests. */
import { dirname } from "node:path";
import { type DType, encodeElements } from "../../runtime/dtype.ts";

/** Bytes of a file with this header (text, or a value to write as JSON) and this data. */
export function encodeSafetensors(
  header: unknown,
  data: Uint8Array = new Uint8Array(0),
): Uint8Array {
  const text = new TextEncoder().encode(
    typeof header === "string" ? header : JSON.stringify(header),
  );
  const bytes = new Uint8Array(8 + text.byteLength + data.byteLength);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.byteLength), true);
  bytes.set(text, 8);
  bytes.set(data, 8 + text.byteLength);
  return bytes;
}

/** A tensor to be written. */
export interface TensorValues {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly values: ArrayLike<number>;
}

/** A file that holds these tensors, one after the other. */
export function safetensorsOf(tensors: Readonly<Record<string, TensorValues>>): Uint8Array {
  const header: Record<string, unknown> = {};
  const parts: Uint8Array[] = [];
  let offset = 0;
  for (const [name, { dtype, shape, values }] of Object.entries(tensors)) {
    const bytes = encodeElements(values, dtype);
    header[name] = {
      dtype: dtype.toUpperCase(),
      shape,
      data_offsets: [offset, offset + bytes.byteLength],
    };
    parts.push(bytes);
    offset += bytes.byteLength;
  }
  const data = new Uint8Array(offset);
  let at = 0;
  for (const part of parts) {
    data.set(part, at);
    at += part.byteLength;
  }
  return encodeSafetensors(header, data);
}

/** Calls `use` with a folder that has these files, and removes it afterwards. */
export function withFolder<T>(
  files: Readonly<Record<string, Uint8Array | string>>,
  use: (folder: string) => T,
): T {
  const folder = Deno.makeTempDirSync();
  const remove = () => Deno.removeSync(folder, { recursive: true });
  let result: T;
  try {
    for (const [name, content] of Object.entries(files)) {
      Deno.mkdirSync(dirname(`${folder}/${name}`), { recursive: true });
      if (typeof content === "string") Deno.writeTextFileSync(`${folder}/${name}`, content);
      else Deno.writeFileSync(`${folder}/${name}`, content);
    }
    result = use(folder);
  } catch (error) {
    remove();
    throw error;
  }
  if (result instanceof Promise) return result.finally(remove) as T;
  remove();
  return result;
}
