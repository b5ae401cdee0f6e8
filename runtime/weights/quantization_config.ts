/** What files say of their quantisation beside tensors: transformers' `quantization_config`, and ComfyUI's formats of layers. */
import { isObject } from "../../hub/json_file.ts";

/** What is read of a `quantization_config`, with which every fp8 matrix has a scale. */
export interface Quantization {
  /** Rows and columns that share a scale. */
  readonly blockSize?: readonly [number, number];
}

/** How ComfyUI stores a layer's weight. */
export interface LayerFormat {
  readonly format: "fp8" | "nvfp4" | "mxfp8" | "int8";
  /** Columns that were rotated together before they were rounded. */
  readonly rotation?: number;
}

type Fields = Readonly<Record<string, unknown>>;

/** Where configurations have it; the latter is what compressed-tensors wrote at first. */
const KEYS = ["quantization_config", "compression_config"];

/** ComfyUI's name for a header's formats of layers. */
const COMFY_METADATA = "_quantization_metadata";

/** Methods whose weights are fp8 with scales that are read, by what they say of that. */
const READ_METHODS: Readonly<Record<string, (config: Fields) => boolean>> = {
  fp8: () => true,
  modelopt: ({ quant_algo: algorithm }) => algorithm === "FP8",
  "compressed-tensors": ({ format }) => format === "float-quantized",
};

/** ComfyUI's formats that are read, by its names. */
const COMFY_FORMATS: readonly (readonly [name: RegExp, format: LayerFormat["format"]])[] = [
  [/^float8_e\dm\d(?:fn)?(?:_\w+)?$/, "fp8"],
  [/^nvfp4$/, "nvfp4"],
  [/^mxfp8$/, "mxfp8"],
  [/^int8_tensorwise$/, "int8"],
];

/** Settings of ComfyUI's formats that change how products are computed, and no numbers. */
const COMFY_SILENT = new Set(["format", "full_precision_matrix_mult", "group_size", "block_size"]);
/** Settings of int8 that are read. */
const INT8_SETTINGS = new Set(["convrot", "convrot_groupsize", "per_row"]);
const ROTATION = 256;

const ADVICE = "take the model in fp8, in bf16, or as GGUF";

/** Reads `config.json`, or the metadata of a header, whose values are JSON. */
export function readQuantization(fields: Fields, path: string): Quantization | undefined {
  const config = KEYS.map((key) => parsed(fields[key], path)).find((value) => value !== undefined);
  if (!config) return undefined;
  const { quant_method: method = config["method"], weight_block_size: size } = config;
  const isRead = typeof method === "string" && Object.hasOwn(READ_METHODS, method) &&
    READ_METHODS[method]!(config);
  if (!isRead) {
    const words = [method, config["quant_algo"] ?? config["format"] ?? config["bits"]]
      .filter((word) => typeof word === "string" || typeof word === "number").join(", ");
    throw new SyntaxError(
      `Cannot read "${path}": its quantization_config says that weights are quantised by ${
        words.slice(0, 100) || "an unnamed method"
      }, which is not supported; ${ADVICE}`,
    );
  }
  return isSize(size) ? { blockSize: size } : {};
}

/** The formats of layers that a header's metadata tells, by their names. */
export function readLayerFormats(fields: Fields, path: string): [name: string, LayerFormat][] {
  const layers = parsed(fields[COMFY_METADATA], path)?.["layers"];
  return Object.entries(isObject(layers) ? layers : {}).map(([name, layer]) => [
    name,
    readLayerFormat(layer, `"${path}": layer "${name.slice(0, 200)}"`),
  ]);
}

/** Reads ComfyUI's format of a layer, which is JSON where it is a tensor. */
export function readLayerFormat(layer: unknown, place: string): LayerFormat {
  const told = layer instanceof Uint8Array
    ? parsed(new TextDecoder().decode(layer), place)
    : isObject(layer)
    ? layer
    : undefined;
  const { params, ...own } = told ?? {};
  const fields: Fields = { ...(isObject(params) ? params : {}), ...own };
  const { format: name, convrot: isRotated, convrot_groupsize: group = ROTATION } = fields;
  const format = COMFY_FORMATS.find(([sign]) => typeof name === "string" && sign.test(name))?.[1];
  const other = Object.entries(fields).find(([key, value]) =>
    !COMFY_SILENT.has(key) && !(format === "int8" && INT8_SETTINGS.has(key)) && value !== null &&
    value !== false
  );
  if (format && !other) {
    if (format !== "int8" || !isRotated) return { format };
    if (isPowerOfFour(group)) return { format, rotation: group };
  }
  const words = !format
    ? `is quantised as ${name}`
    : other
    ? `has ${other[0]}`
    : `has convrot_groupsize ${JSON.stringify(group)}`;
  throw new SyntaxError(
    `Cannot read ${place} ${words.slice(0, 100)}, which is not supported; ${ADVICE}`,
  );
}

function isPowerOfFour(value: unknown): value is number {
  return typeof value === "number" && value >= 4 && Number.isInteger(Math.log2(value) / 2);
}

/** An object, or JSON of one; nothing for null and what is not there. */
function parsed(value: unknown, path: string): Fields | undefined {
  if (value === undefined || value === null) return undefined;
  let fields = value;
  if (typeof value === "string") {
    try {
      fields = JSON.parse(value);
    } catch {
      // Said below.
    }
  }
  if (isObject(fields)) return fields;
  throw new SyntaxError(
    `Cannot read "${path}": what it says of its quantisation is no JSON object; fetch it again`,
  );
}

function isSize(value: unknown): value is [number, number] {
  return Array.isArray(value) && value.length === 2 &&
    value.every((size) => Number.isSafeInteger(size) && size > 0);
}
