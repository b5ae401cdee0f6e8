/**
 * Files of PyTorch's `torch.save`: a pickle that describes tensors, and their elements. Nothing of it is run.
 * Source: PyTorch `torch/serialization.py`, of the zip format and of the one before 1.6.
 */
import type { FileSource } from "../../../platform/mod.ts";
import { nameProblem, type TensorEntry } from "../container.ts";
import { FORMAT_BITS } from "../safetensors.ts";
import { elementCount } from "../../shape.ts";
import { extentOf, isDense } from "../strided.ts";
import { PARAMETER_DICT, TorchGlobals } from "./torch_globals.ts";
import { unpickle } from "./unpickle.ts";
import {
  isKind,
  PickleMap,
  type PickleValue,
  quoted,
  type TorchStorage,
  type TorchTensor,
} from "./values.ts";
import { dataOffset, readZipEntries } from "./zip_entries.ts";

/** What a file says of its tensors, and short text and numbers beside them. */
export interface TorchHeader {
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  readonly metadata: ReadonlyMap<string, string | number | boolean>;
}

/** Bytes of the pickle; that of a model with its whole training state has some millions. */
const MAX_PICKLE_BYTES = 16 * 1024 * 1024;
/** Dicts in dicts that are looked into. */
const MAX_DEPTH = 6;
/** Items of dicts that are looked at; a dict may stand in several places. */
const MAX_ITEMS = 500_000;
const MAX_TEXT_LENGTH = 1024;

/** How every zip archive begins. */
export const ZIP_MAGIC: readonly number[] = [0x50, 0x4b, 3, 4];
/** How files from before PyTorch 1.6 begin: a pickle of one number. */
export const LEGACY_MAGIC: readonly number[] = [
  ...[0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46],
  ...[0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e],
];
const LEGACY_PROTOCOL = 1001;

/**
 * Reads and checks the pickle of an open file. No elements are read.
 *
 * @param path only for messages
 * @throws {SyntaxError} when the file is damaged, or refers to anything but tensors and plain values
 */
export function readTorchHeader(file: FileSource, path: string): TorchHeader {
  const head = new Uint8Array(Math.min(LEGACY_MAGIC.length, file.size));
  file.read(0, head);
  try {
    return beginsWith(head, ZIP_MAGIC) ? readZip(file) : readLegacy(file);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new SyntaxError(
      `Cannot read "${path}": ${cause.message}; fetch the model as safetensors`,
      { cause },
    );
  }
}

export function beginsWith(bytes: Uint8Array, magic: readonly number[]): boolean {
  return magic.every((byte, i) => bytes[i] === byte);
}

function readZip(file: FileSource): TorchHeader {
  const entries = readZipEntries(file);
  const pickles = [...entries.values()].filter(({ name }) => /^[^/]*\/data\.pkl$/.test(name));
  if (pickles.length !== 1) {
    throw new SyntaxError("it is a zip archive, and none that PyTorch has saved");
  }
  const [pickle] = pickles as [typeof pickles[0]];
  const folder = pickle.name.slice(0, -"data.pkl".length);
  const read = (name: string, most: number) => {
    const entry = entries.get(folder + name);
    if (!entry) return undefined;
    if (entry.byteLength > most) {
      throw new SyntaxError(`"${name}" in it has ${entry.byteLength} bytes, the limit is ${most}`);
    }
    const bytes = new Uint8Array(entry.byteLength);
    file.read(dataOffset(file, entry), bytes);
    return bytes;
  };
  const order = read("byteorder", 16);
  checkOrder(order === undefined || new TextDecoder().decode(order).trim() === "little");
  const host = new TorchGlobals();
  const { value } = unpickle(read("data.pkl", MAX_PICKLE_BYTES)!, 0, host);
  return header(value, ({ key }) => {
    const entry = entries.get(`${folder}data/${key}`);
    if (!entry) throw new SyntaxError(`it lacks storage ${quoted(key)}`);
    return { start: dataOffset(file, entry), byteLength: entry.byteLength };
  });
}

function readLegacy(file: FileSource): TorchHeader {
  const size = file.size;
  const bytes = new Uint8Array(Math.min(size, MAX_PICKLE_BYTES));
  file.read(0, bytes);
  const host = new TorchGlobals();
  let place = LEGACY_MAGIC.length;
  const next = () => {
    const { value, end } = unpickle(bytes, place, host);
    place = end;
    return value;
  };
  if (next() !== LEGACY_PROTOCOL) throw new SyntaxError("its protocol is not known");
  const system = next();
  checkOrder(!(system instanceof PickleMap) || system.get("little_endian") !== false);
  const value = next();
  const keys = next();
  const places = new Map<string, { readonly start: number; readonly byteLength: number }>();
  for (const key of Array.isArray(keys) ? keys : []) {
    const storage = typeof key === "string" ? host.storages.get(key) : undefined;
    if (!storage) throw new SyntaxError("it lists storages that its pickle does not");
    // The number of elements comes first, once more.
    const byteLength = storedBytes(storage);
    if (place + 8 + byteLength > size) throw new SyntaxError("it is cut off");
    places.set(storage.key, { start: place + 8, byteLength });
    place += 8 + byteLength;
  }
  return header(value, ({ key }) => {
    const found = places.get(key);
    if (!found) throw new SyntaxError(`it lacks storage ${quoted(key)}`);
    return found;
  });
}

function storedBytes({ count, format = "U8" }: TorchStorage): number {
  return count * FORMAT_BITS.get(format)! / 8;
}

function checkOrder(isLittle: boolean): void {
  if (isLittle) return;
  throw new SyntaxError("its numbers are big-endian, which is not supported");
}

type PlaceOf = (storage: TorchStorage) => {
  readonly start: number;
  readonly byteLength: number;
};

function header(value: PickleValue, placeOf: PlaceOf): TorchHeader {
  const own = content(value);
  // Some files of textual inversions are lists of dicts.
  const root = Array.isArray(own) ? new PickleMap(own.entries()) : own;
  if (!(root instanceof PickleMap)) throw new SyntaxError("it holds no dict of tensors");
  const state = content(root.get("state_dict"));
  const metadata = new Map<string, string | number | boolean>();
  for (const [key, said] of root) {
    if (typeof key !== "string" || key.length > MAX_TEXT_LENGTH) continue;
    if (typeof said === "string" && said.length <= MAX_TEXT_LENGTH) metadata.set(key, said);
    if (typeof said === "number" || typeof said === "boolean") metadata.set(key, said);
  }
  const tensors = new Map<string, TensorEntry>();
  for (const [name, tensor] of named(state instanceof PickleMap ? state : root)) {
    const problem = nameProblem(name);
    if (problem) throw new SyntaxError(problem);
    if (tensors.has(name)) throw new SyntaxError(`it has two tensors called "${name}"`);
    tensors.set(name, entry(name, tensor, placeOf));
  }
  return { tensors, metadata };
}

/** A dict, or what an old module holds in place of one. */
function content(value: PickleValue | undefined): PickleValue | undefined {
  const isModule = isKind(value, "object") && value.name === PARAMETER_DICT;
  return isModule && value.state instanceof PickleMap ? value.state.get("_parameters") : value;
}

/** Tensors in dicts, their names joined by dots. Where there are weights and their moving average, it is the average. */
function* named(
  map: PickleMap,
  prefix = "",
  depth = 0,
  seen = { items: 0 },
): Generator<[string, TorchTensor]> {
  const isAveraged = content(map.get("params_ema")) instanceof PickleMap;
  for (const [key, stored] of map) {
    if (++seen.items > MAX_ITEMS) {
      throw new SyntaxError(`its dicts have more than ${MAX_ITEMS} items`);
    }
    if (typeof key !== "string" && typeof key !== "number") continue;
    if (isAveraged && key === "params") continue;
    const value = content(stored);
    if (isKind(value, "tensor")) yield [`${prefix}${key}`, value];
    else if (value instanceof PickleMap && depth < MAX_DEPTH) {
      yield* named(value, `${prefix}${key}.`, depth + 1, seen);
    }
  }
}

function entry(name: string, tensor: TorchTensor, placeOf: PlaceOf): TensorEntry {
  const { storage, format, offset, shape, strides } = tensor;
  const elementBytes = FORMAT_BITS.get(format)! / 8;
  const { start, byteLength: stored } = placeOf(storage);
  const needed = storedBytes(storage);
  if (needed > stored) {
    throw new SyntaxError(
      `storage ${quoted(storage.key)} has ${stored} bytes, its pickle says ${needed}`,
    );
  }
  const byteLength = elementCount(shape) * elementBytes;
  const byteOffset = start + offset * elementBytes;
  if (isDense(tensor)) return { name, format, shape, byteOffset, byteLength };
  if (extentOf({ shape, strides, byteLength }) > byteLength) {
    throw new SyntaxError(`tensor "${name}" is a part of a larger one`);
  }
  return { name, format, shape, byteOffset, byteLength, strides };
}
