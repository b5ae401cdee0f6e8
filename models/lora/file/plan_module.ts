/** From the tensors of one module of a file to the changes of ours. */
import { sharedBytes } from "../../../platform/mod.ts";
import { elementCount, formatShape, type TensorEntry } from "../../../runtime/mod.ts";
import type { LoraTensor, ModuleChange, Rows, WeightChange } from "../types.ts";
import { isReadable } from "./lora_file.ts";
import { MisfitError, planChanges, type TensorReader } from "./change_kinds.ts";
import type { Place, PlacePart } from "./module_index.ts";
import type { ModuleTensors } from "./keys.ts";
import { weightedSum } from "./tucker.ts";

export interface PlannedModule {
  readonly tensors: readonly TensorEntry[];
  readonly unmatched: readonly string[];
  build(read: TensorReader): ModuleChange[];
}

interface Magnitude {
  readonly entry: TensorEntry;
  readonly over: "rows" | "columns";
}

export function planModule(
  { parts, keys }: ModuleTensors,
  place: Place,
  scaleOf: (rank: number | undefined) => number,
): PlannedModule {
  const changes = planChanges(parts, place.shape);
  const hasBias = place.parts.every(({ module }) => module.hasBias);
  const biases = (["diff_b", "up_bias"] as const)
    .map((part) => parts.get(part)).filter((entry) => entry !== undefined);
  for (const entry of biases) checkLength(entry, rowsOf(place));
  const magnitude = magnitudeOf(parts, place);
  if (magnitude && changes.length === 0) {
    throw new MisfitError(`"${magnitude.entry.name}" has no factors beside it`);
  }
  const usedBiases = hasBias ? biases : [];
  const tensors = [
    ...changes.flatMap((change) => change.tensors),
    ...usedBiases,
    ...(magnitude ? [magnitude.entry] : []),
  ];
  for (const entry of tensors) {
    if (!isReadable(entry)) {
      throw new MisfitError(`"${entry.name}" is of type ${entry.format}, not F32, F16 or BF16`);
    }
  }
  const scales = changes.map((change) => scaleOf(change.rank));
  const isEmpty = tensors.length === 0;
  return {
    tensors,
    unmatched: isEmpty ? keys : hasBias ? [] : biases.map(({ name }) => name),
    build: (read) =>
      isEmpty ? [] : assemble(place, {
        weight: changes.map((change, i) => change.build(read, scales[i]!)),
        ...(usedBiases.length > 0 ? { bias: biasOf(usedBiases, parts, scales, read) } : {}),
        ...(magnitude ? { lengths: asVector(read(magnitude.entry)), over: magnitude.over } : {}),
      }),
  };
}

interface Built {
  readonly weight: readonly WeightChange[];
  readonly bias?: LoraTensor;
  readonly lengths?: LoraTensor;
  readonly over?: "rows" | "columns";
}

function assemble(place: Place, { weight, bias, lengths, over }: Built): ModuleChange[] {
  const byModule = new Map<string, PlacePart[]>();
  for (const part of place.parts) {
    const { name } = part.module;
    byModule.set(name, [...byModule.get(name) ?? [], part]);
  }
  const total = rowsOf(place);
  return [...byModule].map(([module, parts]) => {
    const rowsHere = (tensor: LoraTensor) =>
      concatRows(parts.map(({ theirs: [start, count] }) => sliceRows(tensor, start, count)));
    return {
      target: place.target,
      module,
      weight: weight.flatMap((change) => parts.flatMap((part) => cutRows(change, total, part))),
      ...(bias ? { bias: rowsHere(bias) } : {}),
      ...(lengths && over
        ? { magnitude: { lengths: over === "rows" ? rowsHere(lengths) : lengths, over } }
        : {}),
    };
  });
}

function biasOf(
  entries: readonly TensorEntry[],
  parts: ModuleTensors["parts"],
  scales: readonly number[],
  read: TensorReader,
): LoraTensor {
  const terms = entries.map((entry) =>
    [asVector(read(entry)), entry === parts.get("up_bias") ? scales[0] ?? 1 : 1] as const
  );
  return terms.length === 1 && terms[0]![1] === 1 ? terms[0]![0] : weightedSum(terms);
}

function magnitudeOf(parts: ModuleTensors["parts"], place: Place): Magnitude | undefined {
  const rows = rowsOf(place);
  const magnitude = parts.get("magnitude");
  if (magnitude) {
    checkLength(magnitude, rows);
    return { entry: magnitude, over: "rows" };
  }
  const entry = parts.get("dora_scale");
  if (!entry) return undefined;
  const length = elementCount(entry.shape);
  const columns = place.shape[1] ?? 1;
  // Of as many rows as columns, the dimension that has them says which are meant.
  if (length === rows && entry.shape[0] === rows) return { entry, over: "rows" };
  if (length !== columns) {
    throw new MisfitError(
      `"${entry.name}" is ${
        formatShape(entry.shape)
      }, the module has ${rows} rows and ${columns} columns`,
    );
  }
  if (place.parts.length > 1) {
    throw new MisfitError(
      `"${entry.name}" sets the lengths of columns of several joined modules, which are apart here`,
    );
  }
  return { entry, over: "columns" };
}

function rowsOf({ shape }: Place): number {
  return shape[0] ?? 1;
}

function asVector(tensor: LoraTensor): LoraTensor {
  return { ...tensor, shape: [elementCount(tensor.shape)] };
}

function checkLength({ name, shape }: TensorEntry, length: number): void {
  if (elementCount(shape) === length) return;
  throw new MisfitError(`"${name}" is ${formatShape(shape)}, the module needs [${length}]`);
}

interface RowCut {
  readonly theirs: Rows;
  readonly ours?: Rows;
}

export function cutRows(
  change: WeightChange,
  total: number,
  { theirs, ours }: RowCut,
): WeightChange[] {
  const [start, count] = theirs;
  if (start === 0 && count === total) return [change];
  const placed = <T>(value: T) => (ours ? { ...value, rows: ours } : value);
  switch (change.kind) {
    case "low-rank":
      return [placed({ ...change, up: sliceRows(change.up, start, count) })];
    case "whole":
      return [placed({ ...change, delta: sliceRows(change.delta, start, count) })];
    case "hadamard": {
      const [first, second] = change.up;
      return [
        placed({
          ...change,
          up: [sliceRows(first, start, count), sliceRows(second, start, count)] as const,
        }),
      ];
    }
    case "kronecker":
      return cutKronecker(change, total, start, count, ours?.[0] ?? 0);
  }
}

/** Rows of a tensor, in the same memory. */
export function sliceRows(tensor: LoraTensor, start: number, count: number): LoraTensor {
  const { shape, bytes } = tensor;
  const [rows = 1, ...others] = shape;
  if (start === 0 && count === rows) return tensor;
  const row = bytes.byteLength / rows;
  return {
    ...tensor,
    shape: [count, ...others],
    bytes: bytes.subarray(start * row, (start + count) * row),
  };
}

export function concatRows(tensors: readonly LoraTensor[]): LoraTensor {
  const [first, ...others] = tensors;
  if (others.length === 0) return first!;
  const bytes = new Uint8Array(
    sharedBytes(tensors.reduce((sum, tensor) => sum + tensor.bytes.byteLength, 0)),
  );
  let at = 0;
  for (const tensor of tensors) {
    bytes.set(tensor.bytes, at);
    at += tensor.bytes.byteLength;
  }
  const rows = tensors.reduce((sum, { shape }) => sum + (shape[0] ?? 1), 0);
  return { ...first!, shape: [rows, ...first!.shape.slice(1)], bytes };
}

/** Each row of the first factor makes a block of rows: a block's rest, whole blocks, a block's beginning. */
function cutKronecker(
  change: WeightChange & { readonly kind: "kronecker" },
  total: number,
  start: number,
  count: number,
  ourStart: number,
): WeightChange[] {
  const [first, second] = change.factors;
  const height = total / first[0]!.shape[0]!;
  const cuts: WeightChange[] = [];
  for (let row = start; row < start + count;) {
    const inBlock = row % height;
    const left = start + count - row;
    const isWhole = inBlock === 0 && left >= height;
    const blocks = isWhole ? Math.floor(left / height) : 1;
    const taken = isWhole ? blocks * height : Math.min(height - inBlock, left);
    const factors = [
      sliceFactor(first, Math.floor(row / height), blocks),
      isWhole ? second : sliceFactor(second, inBlock, taken),
    ] as const;
    cuts.push({ ...change, factors, rows: [ourStart + row - start, taken] });
    row += taken;
  }
  return cuts;
}

function sliceFactor(
  [first, ...others]: readonly LoraTensor[],
  start: number,
  count: number,
): readonly LoraTensor[] {
  return [sliceRows(first!, start, count), ...others];
}
