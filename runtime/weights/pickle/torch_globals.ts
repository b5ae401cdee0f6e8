/** Names that pickles of PyTorch may refer to. All others are refused: nothing that weights need is among them. */
import { elementCount } from "../../shape.ts";
import { MAX_RANK } from "../container.ts";
import { FORMAT_BITS } from "../safetensors.ts";
import type { PickleHost } from "./unpickle.ts";
import {
  isKind,
  type PickleGlobal,
  PickleMap,
  type PickleObject,
  type PickleValue,
  quoted,
  type TorchStorage,
  type TorchTensor,
} from "./values.ts";

/** Formats of the containers, by PyTorch's element types. */
const FORMATS: Readonly<Record<string, string>> = {
  float64: "F64",
  float32: "F32",
  float16: "F16",
  bfloat16: "BF16",
  int64: "I64",
  int32: "I32",
  int16: "I16",
  int8: "I8",
  uint64: "U64",
  uint32: "U32",
  uint16: "U16",
  uint8: "U8",
  bool: "BOOL",
  float8_e4m3fn: "F8_E4M3",
  float8_e5m2: "F8_E5M2",
  float8_e8m0fnu: "F8_E8M0",
};

/** Formats by the storages that old files name. */
const STORAGES: Readonly<Record<string, string | undefined>> = {
  "torch.DoubleStorage": "F64",
  "torch.FloatStorage": "F32",
  "torch.HalfStorage": "F16",
  "torch.BFloat16Storage": "BF16",
  "torch.LongStorage": "I64",
  "torch.IntStorage": "I32",
  "torch.ShortStorage": "I16",
  "torch.CharStorage": "I8",
  "torch.ByteStorage": "U8",
  "torch.BoolStorage": "BOOL",
  "torch.storage.UntypedStorage": undefined,
};

const TENSOR_CALLS = ["_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3"]
  .map((name) => `torch._utils.${name}`);
const PARAMETER_CALLS = ["_rebuild_parameter", "_rebuild_parameter_with_state"]
  .map((name) => `torch._utils.${name}`);
const LIST_CALLS = ["torch.Size", ...["set", "frozenset", "list", "tuple"].map(builtin)];
const DICT_CALLS = [
  ...["OrderedDict", "defaultdict", "Counter"].map((name) => `collections.${name}`),
  builtin("dict"),
];

/** A module that old files of textual inversions hold their vectors in. */
export const PARAMETER_DICT = "torch.nn.modules.container.ParameterDict";

/** What trainers leave beside weights; it is kept as a name and never looked at. */
const IGNORED = [
  PARAMETER_DICT,
  "torch.device",
  ...["scalar", "_reconstruct"].flatMap((name) => [
    `numpy.core.multiarray.${name}`,
    `numpy._core.multiarray.${name}`,
  ]),
  ...["numpy.dtype", "numpy.ndarray", "_codecs.encode", "argparse.Namespace"],
  builtin("int"),
  ...["model_checkpoint.ModelCheckpoint", "early_stopping.EarlyStopping"].flatMap((name) => [
    `pytorch_lightning.callbacks.${name}`,
    `lightning.pytorch.callbacks.${name}`,
  ]),
];

/** Python 3's name of a builtin, to which {@linkcode TorchGlobals} turns that of Python 2. */
function builtin(name: string): string {
  return `builtins.${name}`;
}

const KNOWN = new Set([
  ...Object.keys(STORAGES),
  ...Object.keys(FORMATS).map((name) => `torch.${name}`),
  ...TENSOR_CALLS,
  ...PARAMETER_CALLS,
  ...LIST_CALLS,
  ...DICT_CALLS,
  ...IGNORED,
]);

/** Items of dicts that calls make; each call costs a pickle few bytes, whatever the length of its list. */
const MAX_CALLED_ITEMS = 1_000_000;

/** The host of a pickle: tensors are described, never read. */
export class TorchGlobals implements PickleHost {
  /** All storages, by their keys. */
  readonly storages = new Map<string, TorchStorage>();
  #calledItems = 0;

  global(module: string, name: string): PickleGlobal {
    const full = `${module.replace(/^__builtin__$/, "builtins")}.${name}`;
    if (KNOWN.has(full)) return { kind: "global", name: full };
    throw new SyntaxError(
      `its pickle refers to ${quoted(full)}, and only tensors and plain values are read; ` +
        "nothing of it was run",
    );
  }

  call(callee: PickleValue, args: PickleValue[]): PickleValue {
    const { name } = isKind(callee, "global") ? callee : { name: "" };
    if (DICT_CALLS.includes(name)) return this.#dict(args);
    if (TENSOR_CALLS.includes(name)) return tensor(name, args);
    if (PARAMETER_CALLS.includes(name) && isKind(args[0], "tensor")) return args[0];
    if (LIST_CALLS.includes(name)) return Array.isArray(args[0]) ? args[0] : [];
    if (IGNORED.includes(name)) return { kind: "object", name };
    throw new SyntaxError(
      `its pickle calls ${name || "what is no function"} in a way that PyTorch does not`,
    );
  }

  build(object: PickleValue, state: PickleValue): void {
    if (isKind(object, "object")) (object as PickleObject).state = state;
    // PyTorch keeps versions of modules with a dict of their weights.
    else if (!(object instanceof PickleMap)) {
      throw new SyntaxError("its pickle gives a state to a plain value");
    }
  }

  persistent(id: PickleValue): TorchStorage {
    const [sign, type, key, , count, view] = Array.isArray(id) ? id : [];
    const known = typeof key === "string" ? this.storages.get(key) : undefined;
    if (known) return known;
    if (
      sign !== "storage" || !isKind(type, "global") || !Object.hasOwn(STORAGES, type.name) ||
      typeof key !== "string" || !isCount(count)
    ) throw new SyntaxError("its pickle refers to a storage that PyTorch would name otherwise");
    if (view !== null && view !== undefined) {
      throw new SyntaxError(`storage ${quoted(key)} is a view of another, as none are now`);
    }
    const storage = { kind: "storage", key, format: STORAGES[type.name], count } as const;
    this.storages.set(key, storage);
    return storage;
  }

  /** A dict of pairs; what a `defaultdict` has for missing keys does not matter. */
  #dict([items = []]: PickleValue[]): PickleMap {
    if (items instanceof PickleMap) return items;
    if (isKind(items, "global")) return new PickleMap();
    if (Array.isArray(items) && (this.#calledItems += items.length) > MAX_CALLED_ITEMS) {
      throw new SyntaxError(`its pickle makes dicts of more than ${MAX_CALLED_ITEMS} items`);
    }
    const isPair = (pair: PickleValue) => Array.isArray(pair) && pair.length === 2;
    if (!Array.isArray(items) || !items.every(isPair)) {
      throw new SyntaxError("its pickle has a dict of what are no pairs");
    }
    return new PickleMap(items as [PickleValue, PickleValue][]);
  }
}

function tensor(name: string, args: PickleValue[]): TorchTensor {
  const [storage, offset, shape, strides] = args;
  const type = name.endsWith("_v3") ? args[6] : undefined;
  const format = isKind(type, "global")
    ? FORMATS[type.name.replace("torch.", "")]
    : isKind(storage, "storage")
    ? storage.format
    : undefined;
  if (
    !isKind(storage, "storage") || format === undefined || !isCount(offset) || !isCounts(shape) ||
    !isCounts(strides) || strides.length !== shape.length
  ) throw new SyntaxError("its pickle describes a tensor in a way that PyTorch does not");
  const last = shape.includes(0)
    ? -1
    : shape.reduce((sum, size, axis) => sum + (size - 1) * strides[axis]!, offset);
  const bytes = FORMAT_BITS.get(format)! / 8;
  const storageBytes = storage.count * FORMAT_BITS.get(storage.format ?? "U8")! / 8;
  if (!((last + 1) * bytes <= storageBytes)) {
    throw new SyntaxError(
      `a tensor of shape [${shape}] reaches beyond its storage of ${storageBytes} bytes`,
    );
  }
  // A stride of 0 repeats an element as often as the shape says.
  if (elementCount(shape) * bytes > storageBytes) {
    throw new SyntaxError(
      `a tensor of shape [${shape}] repeats elements of its storage of ${storageBytes} bytes`,
    );
  }
  return { kind: "tensor", storage, format, offset, shape, strides };
}

function isCount(value: PickleValue | undefined): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isCounts(value: PickleValue | undefined): value is number[] {
  return Array.isArray(value) && value.length <= MAX_RANK && value.every(isCount);
}
