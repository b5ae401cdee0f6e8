/** What files say of their quantisation beside tensors: transformers' `quantization_config`, and ComfyUI's formats of layers. */
import { isObject } from "../../hub/json_file.ts";

/** What is read of a `quantization_config`, with which every fp8 matrix has a scale. */
export interface Quantization {
  /** Rows and columns that share a scale. */
  readonly blockSize?: readonly [number, number];
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

/** Settings of ComfyUI's formats that change how products are computed, and no numbers. */
const COMFY_SILENT = new Set(["format", "full_precision_matrix_mult", "group_size", "block_size"]);

const ADVICE = "take the model in fp8, in bf16, or as GGUF";

/** Reads `config.json`, or the metadata of a header, whose values are JSON. */
export function readQuantization(fields: Fields, path: string): Quantization | undefined {
  const layers = parsed(fields[COMFY_METADATA], path)?.["layers"];
  for (const [name, layer] of Object.entries(isObject(layers) ? layers : {})) {
    checkComfyFormat(layer, `"${path}": layer "${name.slice(0, 200)}"`);
  }
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

export function checkComfyFormat(format: unknown, place: string): void {
  const fields = format instanceof Uint8Array
    ? parsed(new TextDecoder().decode(format), place)
    : isObject(format)
    ? format
    : {};
  const name = fields?.["format"];
  const isFp8 = typeof name === "string" && /^float8_e\dm\d(?:fn)?(?:_\w+)?$/.test(name);
  const other = Object.entries(fields ?? {})
    .find(([key, value]) => !COMFY_SILENT.has(key) && value !== null && value !== false);
  if (isFp8 && !other) return;
  const words = isFp8 ? `has ${other![0]}` : `is quantised as ${name}`;
  throw new SyntaxError(
    `Cannot read ${place} ${words.slice(0, 100)}, which is not supported; ${ADVICE}`,
  );
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
