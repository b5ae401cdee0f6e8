/** Copies of the bundled model with something wrong in them. */
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { encodeElements } from "../../runtime/mod.ts";

/** The model that comes with the program. */
export const BUNDLED: string = fileURLToPath(new URL("../../models/bundled/", import.meta.url));

/** What a file becomes: new content, a change of its JSON or of its bytes, or nothing at all. */
export type Damage =
  | { readonly text: string }
  | { readonly json: (value: JsonFields) => unknown }
  | { readonly bytes: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer> }
  | "missing";

/** A parsed configuration, to be changed in place. */
// deno-lint-ignore no-explicit-any
export type JsonFields = Record<string, any>;

/** A model folder that is removed when it is disposed of. */
interface DamagedModel extends Disposable {
  readonly folder: string;
}

/**
 * Makes a folder like the bundled model's. Files that are not damaged are links to the originals.
 *
 * @param damages by path in the folder; a path that ends with a slash is a whole component
 */
export function damagedModel(damages: Readonly<Record<string, Damage>>): DamagedModel {
  const folder = Deno.makeTempDirSync();
  for (const path of filesOf(BUNDLED)) {
    const component = `${dirname(path)}/`;
    if (path in damages || component in damages) continue;
    Deno.mkdirSync(join(folder, dirname(path)), { recursive: true });
    Deno.symlinkSync(join(BUNDLED, path), join(folder, path));
  }
  for (const [path, damage] of Object.entries(damages)) {
    if (damage === "missing") continue;
    Deno.mkdirSync(join(folder, dirname(path)), { recursive: true });
    if ("text" in damage) Deno.writeTextFileSync(join(folder, path), damage.text);
    else if ("bytes" in damage) {
      const bytes = damage.bytes(Deno.readFileSync(join(BUNDLED, path)));
      Deno.writeFileSync(join(folder, path), bytes);
    } else {
      const value = JSON.parse(Deno.readTextFileSync(join(BUNDLED, path)));
      Deno.writeTextFileSync(join(folder, path), JSON.stringify(damage.json(value)));
    }
  }
  return { folder, [Symbol.dispose]: () => Deno.removeSync(folder, { recursive: true }) };
}

/** Changes fields of a JSON file. */
export function fields(changes: JsonFields): Damage {
  return { json: (value) => ({ ...value, ...changes }) };
}

/** Changes the header of a safetensors file and keeps its data. */
export function header(change: (header: JsonFields) => unknown): Damage {
  return {
    bytes: (bytes) => {
      const length = Number(new DataView(bytes.buffer).getBigUint64(0, true));
      const json = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
      const text = new TextEncoder().encode(JSON.stringify(change(json)));
      const result = new Uint8Array(8 + text.length + bytes.length - 8 - length);
      new DataView(result.buffer).setBigUint64(0, BigInt(text.length), true);
      result.set(text, 8);
      result.set(bytes.subarray(8 + length), 8 + text.length);
      return result;
    },
  };
}

/** Fills a tensor of f32, f16 or bf16 with a number. */
export function fill(tensor: string, value: number): Damage {
  return {
    bytes: (bytes) => {
      const length = Number(new DataView(bytes.buffer).getBigUint64(0, true));
      const json = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
      const { dtype, data_offsets: [begin, end] } = json[tensor];
      const one = encodeElements([value], dtype.toLowerCase());
      for (let at = 8 + length + begin; at < 8 + length + end; at += one.length) bytes.set(one, at);
      return bytes;
    },
  };
}

function filesOf(folder: string, prefix = ""): string[] {
  return [...Deno.readDirSync(join(folder, prefix))].flatMap(({ name, isDirectory }) =>
    isDirectory ? filesOf(folder, `${prefix}${name}/`) : [`${prefix}${name}`]
  );
}
