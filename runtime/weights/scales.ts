/**
 * The scales that fp8 files keep beside their weights, in two flavours of ComfyUI: `layer.scale_weight` with a tensor
 * `scaled_fp8` that marks the file, and since the end of 2025 `layer.weight_scale` with `layer.comfy_quant`.
 */
import { decodeElements, type DType } from "../dtype.ts";
import { elementCount, formatShape } from "../shape.ts";
import type { StoredTensor } from "./tensor_source.ts";

/** Endings of tensors that hold the scale of `weight`. */
const SCALES = ["scale_weight", "weight_scale"] as const;

/** Endings of tensors that say nothing about the numbers in `weight`: scales of activations, names of formats. */
const SILENT = ["scale_input", "input_scale", "comfy_quant", "scaled_fp8"] as const;

/** Endings of tensors that change what `weight` means in ways that are not read. */
const UNREAD = ["weight_scale_2", "pre_quant_scale"] as const;

const DTYPES: Readonly<Record<string, DType>> = { F32: "f32", F16: "f16", BF16: "bf16" };

/**
 * Gives every fp8 weight its scale and leaves out the tensors that held it.
 *
 * @param read all bytes of a tensor
 * @param path for messages
 * @throws {SyntaxError} when a scale is not one positive number, or belongs to something other than fp8
 */
export function applyScales<Entry extends StoredTensor>(
  entries: ReadonlyMap<string, Entry>,
  read: (entry: Entry) => Uint8Array,
  path: string,
): Map<string, Entry> {
  const result = new Map(entries);
  for (const [name, entry] of entries) {
    const place = name.slice(0, name.lastIndexOf(".") + 1);
    const ending = name.slice(place.length);
    if (includes(SILENT, ending)) result.delete(name);
    const weight = result.get(`${place}weight`);
    if (weight === undefined) continue;
    if (includes(UNREAD, ending)) {
      throw new SyntaxError(
        `Cannot read "${path}": tensor "${weight.name}" has a "${ending}", as files for other hardware do; ` +
          "fetch the model in fp8 with one scale per tensor, in bf16, or as GGUF",
      );
    }
    if (!includes(SCALES, ending)) continue;
    const scale = readScale(entry, read, path);
    if (weight.format.startsWith("F8_")) result.set(weight.name, { ...weight, scale });
    else if (scale !== 1) {
      throw new SyntaxError(
        `Cannot read "${path}": tensor "${weight.name}" is stored as ${weight.format} and has a scale; ` +
          "scales are read for fp8 only, fetch the model in that, in bf16, or as GGUF",
      );
    }
    result.delete(name);
  }
  return result;
}

function readScale<Entry extends StoredTensor>(
  entry: Entry,
  read: (entry: Entry) => Uint8Array,
  path: string,
): number {
  const { name, shape, format } = entry;
  const dtype = DTYPES[format];
  if (elementCount(shape) !== 1 || dtype === undefined) {
    throw new SyntaxError(
      `Cannot read "${path}": scale "${name}" has the shape ${
        formatShape(shape)
      } and type ${format}; ` +
        "one number per tensor is read, fetch the model with that, in bf16, or as GGUF",
    );
  }
  const scale = decodeElements(read(entry), dtype)[0]!;
  if (scale > 0 && scale < Infinity) return scale;
  throw new SyntaxError(
    `Cannot read "${path}": scale "${name}" is ${scale}; the file is damaged, fetch it again`,
  );
}

function includes(endings: readonly string[], ending: string): boolean {
  return endings.includes(ending);
}
