/**
 * What quantisers keep beside their weights: scales of fp8 and ComfyUI's layers are read, anything else that a weight needs to be understood is
 * refused. ComfyUI has `layer.scale_weight` with a tensor `scaled_fp8` that marks the file, and since the end of 2025
 * `layer.weight_scale` with `layer.comfy_quant`; transformers has `layer.weight_scale_inv`, which multiplies, too.
 */
import { dequantize } from "../quantization/formats.ts";
import { formatShape } from "../shape.ts";
import { decodedWeight, LAYER_SCALES } from "./layer_formats.ts";
import { type LayerFormat, type Quantization, readLayerFormat } from "./quantization_config.ts";
import {
  gridDecoder,
  gridOf,
  type RangeDecoder,
  readScales,
  type ScaleReader,
} from "./range_decoder.ts";
import { blockFormatOf } from "./storage.ts";
import type { StoredTensor } from "./container.ts";

/** A tensor whose elements are decoded to its format while they are read, where it has a decoder. */
export interface ScaledTensor extends StoredTensor {
  readonly decoder?: RangeDecoder;
}

/** How ComfyUI ends the name of a tensor that tells a layer's format. */
const COMFY_MARK = ".comfy_quant";

/** Endings of tensors that hold the scale, or the scales, of `weight`. */
const SCALES = /^\.(?:scale_weight|weight_scale|weight_scale_inv)$/;

/** Tensors that say nothing about the numbers in `weight`: ranges of activations, and the mark of a file. */
const SILENT =
  /(?:^|[._])(?:scale_input|(?:input|output)_(?:scale|amax|quantizer\._\w+)|scaled_fp8)$/;

/** Names that quantisers use, as endings. */
const COMPANION =
  /(?:scale_weight|scales?|scales?_(?:inv|ub|\d)|a(?:bs)?max|zero_?points?|zeros|SCB|quant\w{0,20}|codebook\w{0,20})$/i;
/** What layers have beside a weight that is stored in any way. */
const PLAIN = /^\.(?:bias|running_mean|running_var|num_batches_tracked|\d+)$/;
/** Types whose numbers stand for themselves. */
const PLAIN_TYPES = /^(?:F32|F16|BF16|F64|C64|BOOL|[IU](?:16|32|64))$/;

/** Methods that are told by a tensor's name. */
const METHODS: readonly (readonly [sign: RegExp, method: string])[] = [
  [/\.quant_state\.bitsandbytes__(\w{1,20})$/, "bitsandbytes ($1)"],
  [/\.SCB$/, "bitsandbytes (int8)"],
  [/\.wscales$/, "Nunchaku (SVDQuant)"],
  [/\.(?:qweight|qzeros|g_idx)$/, "GPTQ or AWQ"],
  [/\.weight_packed$/, "compressed-tensors (packed)"],
  [/\.W_q$/, "HQQ"],
  [/\.weight\._data$/, "Quanto"],
  [/[._:]qdata$/, "torchao"],
  [/\.encoded_exponent$/, "DFloat11"],
];

interface QuantizedReader<Entry> extends ScaleReader<Entry> {
  /** What the file says of its quantisation beside tensors. */
  readonly quantization?: Quantization | undefined;
  /** What the file says of its layers beside tensors. */
  readonly layers: Iterable<readonly [name: string, LayerFormat]>;
}

/** Gives every weight its scale or scales, and leaves out the tensors that held them. */
export function applyScales<Entry extends StoredTensor>(
  entries: ReadonlyMap<string, Entry>,
  reader: QuantizedReader<Entry>,
): Map<string, Entry & ScaledTensor> {
  const { path, quantization } = reader;
  const result = new Map<string, Entry & ScaledTensor>(entries);
  const layers = new Map(reader.layers);
  for (const [name, entry] of entries) {
    if (!name.endsWith(COMFY_MARK)) continue;
    const layer = name.slice(0, -COMFY_MARK.length);
    layers.set(layer, readLayerFormat(reader.read(entry), `"${path}": "${name}"`));
    result.delete(name);
  }
  const decodedReader = { ...reader, read: rememberLast(reader.read) };
  const isDecoded = (weight: string) => {
    const layer = /^(.*)\.weight$/.exec(weight)?.[1];
    return layer !== undefined && (layers.get(layer)?.format ?? "fp8") !== "fp8";
  };
  for (const [layer, format] of layers) {
    const weight = entries.get(`${layer}.weight`);
    if (!weight || !isDecoded(weight.name)) continue;
    result.set(weight.name, {
      ...weight,
      ...decodedWeight(weight, entries, format, decodedReader),
    });
  }
  for (const [name, entry] of entries) {
    const method = METHODS.find(([sign]) => sign.test(name));
    if (method) {
      throw new SyntaxError(
        `Cannot read "${path}": its weights are quantised by ${
          method[0].exec(name)![0].replace(...method)
        }, which is not supported; take the model in bf16, in fp8 or as GGUF`,
      );
    }
    if (name.endsWith(COMFY_MARK)) continue;
    if (SILENT.test(name)) result.delete(name);
    else {
      const owned = ownerOf(entries, name);
      if (!owned) continue;
      const weight = result.get(owned.weight)!;
      const isRead = isDecoded(weight.name) && LAYER_SCALES.test(owned.rest);
      if (!isRead) result.set(weight.name, withScale(weight, owned.rest, entry, reader));
      result.delete(name);
    }
  }
  if (quantization) {
    for (const { name, format, shape, scale, decoder } of result.values()) {
      if (!format.startsWith("F8_") || shape.length < 2 || scale !== undefined || decoder) continue;
      throw new SyntaxError(
        `Cannot read "${path}": tensor "${name}" is stored as ${format} and has no scale, ` +
          "though its quantization_config asks for one; the download may be incomplete, fetch it again",
      );
    }
  }
  return result;
}

/** The weight that a tensor belongs to as a quantiser's companion, and what its name adds; nothing for other tensors. */
function ownerOf(
  entries: ReadonlyMap<string, StoredTensor>,
  name: string,
): { readonly weight: string; readonly rest: string } | undefined {
  const whole = [...name.matchAll(/[.:]/g)].map(({ index }) => index).reverse();
  const lastPart = (whole[0] ?? -1) + 1;
  const words = [...name.slice(lastPart).matchAll(/_/g)].map(({ index }) => lastPart + index);
  for (const at of [...whole, ...words]) {
    const [stem, rest] = [name.slice(0, at), name.slice(at)];
    const weight = entries.get(`${stem}.weight`) ?? entries.get(stem);
    if (!weight || weight.name === name || PLAIN.test(rest)) continue;
    const isDirect = /^\.[^.:]+$/.test(rest);
    const isCompanion = PLAIN_TYPES.test(weight.format)
      ? isDirect && rest.includes("weight") && COMPANION.test(rest)
      : isDirect || COMPANION.test(rest);
    if (isCompanion) return { weight: weight.name, rest };
  }
  return undefined;
}

/** The weight with what its companion says. */
function withScale<Entry extends StoredTensor>(
  weight: Entry & ScaledTensor,
  ending: string,
  companion: Entry,
  reader: QuantizedReader<Entry>,
): Entry & ScaledTensor {
  const { name, format, shape } = weight;
  const values = SCALES.test(ending) ? readScales(companion, reader) : undefined;
  const isScaled = weight.scale !== undefined || weight.decoder !== undefined;
  const [scale] = values ?? [];
  if (values && !isScaled && format.startsWith("F8_") && blockFormatOf(format)) {
    if (values.length === 1) return { ...weight, scale: scale! };
    const grid = gridOf(shape, companion.shape, values, reader.quantization?.blockSize);
    if (grid) {
      const blocks = blockFormatOf(format)!;
      const decoder = gridDecoder(shape, grid, (bytes) => dequantize(bytes, blocks));
      const [byteLength, storedBytes] = [2 * weight.byteLength, weight.byteLength];
      return { ...weight, format: "BF16", byteLength, storedAs: format, storedBytes, decoder };
    }
  } else if (values?.length === 1 && scale === 1 && PLAIN_TYPES.test(format)) return weight;
  throw new SyntaxError(
    `Cannot read "${reader.path}": tensor "${name}" ${formatShape(shape)} is stored as ${
      weight.storedAs ?? format
    } and comes with "${companion.name}" ${
      formatShape(companion.shape)
    }, stored as ${companion.format}, which this program does not read; ` +
      "fetch the model in fp8 with one scale for each tensor, row or block, in bf16, or as GGUF",
  );
}

/** The same, which keeps what it gave last: pieces of a weight are read one after the other. */
function rememberLast<Entry>(read: (entry: Entry) => Uint8Array): (entry: Entry) => Uint8Array {
  let last: { readonly entry: Entry; readonly bytes: Uint8Array } | undefined;
  return (entry) => {
    if (last?.entry !== entry) last = { entry, bytes: read(entry) };
    return last.bytes;
  };
}
