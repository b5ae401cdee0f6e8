/** Which tensor of a checkpoint becomes what, when a copy with fewer bits is made. */
import {
  blockFormatOf,
  elementCount,
  elementTypeOf,
  isWeightFormat,
  type NewTensor,
  type StoredTensor,
  type TensorSource,
  type WeightFormat,
} from "../../../runtime/mod.ts";
import { BLOCK_FORMATS } from "../../../runtime/quantization/formats.ts";
import type { Container, QuantizedType, TypeRule } from "./types.ts";

export interface PlannedTensor extends NewTensor {
  readonly source: StoredTensor;
}

/** Fewer elements than a matrix needs to be worth its blocks. */
const LEAST_ELEMENTS = 2 ** 14;
/** Elements of a matrix that is too large to be left alone outside of the blocks. */
const LARGE_ELEMENTS = 2 ** 24;
/** Tensors of GGUF files of fewer elements are f32. */
const SMALL_ELEMENTS = 1024;

const IN_BLOCK = /(?:^|\.)\w*(?:blocks?|layers|refiner|blk|h)\.\d+\./;
/** Of time and size, too, as Stable Diffusion's files call them; its text encoders are `conditioner.embedders`. */
const EMBEDDER = /embed(?!ders\.)|emb_layers|guidance|time_/;

/** What rows that are no whole blocks are stored as, as llama.cpp does. */
const FALLBACKS: Readonly<Partial<Record<WeightFormat, WeightFormat>>> = {
  q2_k: "iq4_nl",
  q3_k: "iq4_nl",
  iq4_xs: "iq4_nl",
  q4_k: "q5_0",
  q5_k: "q5_1",
  q6_k: "q8_0",
};

/** Types of no weights that GGUF has, too. */
const IS_COPIED: ReadonlySet<string> = new Set(["I8", "I16", "I32", "I64", "F64"]);

/** Matrices in repeated blocks get the type, very large ones elsewhere eight bits; GGUF has norms and biases as f32. */
export function planTensors(
  source: TensorSource,
  type: QuantizedType,
  container: Container,
  rules: readonly TypeRule[] = [],
  leftOut: string[] = [],
): PlannedTensor[] {
  const idle = rules.find(({ pattern }) => ![...source.names].some((name) => pattern.test(name)));
  if (idle) {
    throw new RangeError(
      `Cannot use the rule ${idle.pattern.source}: it matches no tensor; denoise inspect lists them`,
    );
  }
  return [...source.names].flatMap((name) => {
    const tensor = source.find(name)!;
    const { shape } = tensor;
    if (container === "gguf" && isForeign(tensor)) {
      leftOut.push(name);
      return [];
    }
    const wanted = rules.find(({ pattern }) => pattern.test(name))?.type ?? typeFor(tensor, type);
    const format = wanted && fittingType(tensor, wanted);
    return [{ name, shape, source: tensor, format: format ?? unchanged(tensor, container) }];
  });
}

function isMatrix({ name, shape }: StoredTensor): boolean {
  return shape.length === 2 && name.endsWith(".weight");
}

function typeFor(tensor: StoredTensor, type: QuantizedType): QuantizedType | undefined {
  const { name, shape } = tensor;
  const count = elementCount(shape);
  if (!isMatrix(tensor) || count < LEAST_ELEMENTS) return undefined;
  if (IN_BLOCK.test(name) && !EMBEDDER.test(name)) return type;
  const isBlocks = isWeightFormat(type) && !BLOCK_FORMATS[type].byteValues;
  return isBlocks && count > LARGE_ELEMENTS ? "q8_0" : undefined;
}

function fittingType(tensor: StoredTensor, type: QuantizedType): string | undefined {
  const isRead = blockFormatOf(tensor.format) ?? elementTypeOf(tensor.format);
  if (!isMatrix(tensor) || !isRead) return undefined;
  if (!isWeightFormat(type)) return type.toUpperCase();
  const fits = (format: WeightFormat) =>
    tensor.shape[1]! % BLOCK_FORMATS[format].blockElements === 0;
  if (fits(type)) return type.toUpperCase();
  const fallback = FALLBACKS[type];
  return fallback && fits(fallback) ? fallback.toUpperCase() : undefined;
}

function isForeign({ name, format }: StoredTensor): boolean {
  const isNumbers = elementTypeOf(format) ?? blockFormatOf(format);
  return !isNumbers && !IS_COPIED.has(format) && !/\.(?:weight|bias)$/.test(name);
}

function unchanged({ name, format, shape }: StoredTensor, container: Container): string {
  const isBlocks = blockFormatOf(format) !== undefined;
  const isFloat = elementTypeOf(format) !== undefined || isBlocks;
  if (container === "safetensors") return isBlocks ? "BF16" : format;
  const isSmall = shape.length <= 1 || elementCount(shape) < SMALL_ELEMENTS;
  if (isFloat) return isSmall ? "F32" : isBlocks ? "F16" : format;
  if (IS_COPIED.has(format)) return format;
  throw new TypeError(
    `Cannot write tensor "${name}" into a GGUF file: it is stored as ${format}, which GGUF does not have`,
  );
}
