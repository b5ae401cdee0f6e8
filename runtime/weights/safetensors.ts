/** The safetensors container, see https://github.com/huggingface/safetensors#format */
import type { FileSource } from "../../platform/mod.ts";
import { isObject } from "../../hub/json_file.ts";
import { FIRST_BYTES, foreignFile } from "../../hub/first_bytes.ts";
import { elementCount } from "../shape.ts";
import {
  type FileLayout,
  findOverlap,
  MAX_RANK,
  nameProblem,
  type NewTensor,
  type TensorEntry,
} from "./container.ts";

/** A parsed header. */
export interface SafetensorsHeader {
  /** Tensors by name, in the order of the header. */
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  /** Free text of the writer. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** Larger headers are refused: real ones stay below 1 MB, and parsing takes up to 50 times the memory. */
const MAX_HEADER_BYTES = 16 * 1024 * 1024;

/** Bits of an element, by format, of all that the format of files has, whether this program reads it or not. */
export const FORMAT_BITS: ReadonlyMap<string, number> = new Map([
  ["F4", 4],
  ...["F6_E2M3", "F6_E3M2"].map((format) => [format, 6] as const),
  ...["BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E5M2FNUZ", "F8_E4M3FNUZ"]
    .map((format) => [format, 8] as const),
  ...["I16", "U16", "F16", "BF16"].map((format) => [format, 16] as const),
  ...["I32", "U32", "F32"].map((format) => [format, 32] as const),
  ...["I64", "U64", "F64", "C64"].map((format) => [format, 64] as const),
]);

/**
 * Reads and checks the header of an open file. No tensor data is read.
 *
 * @param path only for messages
 * @param wanted what the caller reads, for messages
 * @throws {SyntaxError} when the file is truncated, not safetensors, or its header contradicts itself
 */
export function readSafetensorsHeader(
  file: Pick<FileSource, "size" | "read">,
  path: string,
  wanted = "safetensors",
): SafetensorsHeader {
  const fileBytes = file.size;
  const fail = (what: string): never => {
    throw new SyntaxError(
      `Cannot read "${path}": ${what}. The file is damaged or no safetensors file; fetch it again`,
    );
  };
  if (fileBytes === 0) {
    throw new SyntaxError(`Cannot read "${path}": the file is empty; fetch it again`);
  }
  if (fileBytes < 8) refuseForeign(file, path, wanted);
  if (fileBytes < 8) fail(`it has ${fileBytes} bytes, a safetensors file has at least 8`);
  const head = new Uint8Array(8);
  file.read(0, head);
  const declared = new DataView(head.buffer).getBigUint64(0, true);
  if (declared > BigInt(MAX_HEADER_BYTES)) {
    // A header that fits into the file is none of another kind of file.
    if (declared > BigInt(fileBytes)) refuseForeign(file, path, wanted);
    fail(`its header claims ${declared} bytes, the limit is ${MAX_HEADER_BYTES}`);
  }
  const headerBytes = Number(declared);
  if (8 + headerBytes > fileBytes) {
    fail(`its header claims ${headerBytes} bytes, the file has ${fileBytes}`);
  }
  const text = new Uint8Array(headerBytes);
  file.read(8, text);
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(text));
  } catch {
    fail("its header is not JSON");
  }
  if (!isObject(json)) return fail("its header is not a JSON object");
  const dataStart = 8 + headerBytes;
  const tensors = new Map<string, TensorEntry>();
  const metadata: Record<string, string> = {};
  for (const [name, value] of Object.entries(json)) {
    const problem = nameProblem(name);
    if (problem) fail(problem);
    if (name === "__metadata__") {
      // Writers in C and Rust have null for none.
      if (value !== null && !isObject(value)) fail("its metadata is not an object");
      for (const [key, text] of Object.entries(value ?? {})) {
        if (typeof text !== "string") fail("its metadata is not all text");
        else metadata[key] = text;
      }
      continue;
    }
    tensors.set(name, parseEntry(name, value, { path, dataStart, fileBytes, fail }));
  }
  const overlap = findOverlap(tensors.values());
  if (overlap) fail(`tensors "${overlap[0].name}" and "${overlap[1].name}" overlap`);
  return { tensors, metadata };
}

/** Refuses what its first bytes tell to be another kind of file. */
export function refuseForeign(
  file: Pick<FileSource, "size" | "read">,
  path: string,
  wanted: string,
): void {
  const head = new Uint8Array(Math.min(FIRST_BYTES, file.size));
  file.read(0, head);
  const other = foreignFile(head, wanted);
  if (other !== undefined) throw new SyntaxError(`Cannot read "${path}": ${other}`);
}

function parseEntry(
  name: string,
  value: unknown,
  { path, dataStart, fileBytes, fail }: {
    readonly path: string;
    readonly dataStart: number;
    readonly fileBytes: number;
    fail(what: string): never;
  },
): TensorEntry {
  if (!isObject(value)) return fail(`the entry of tensor "${name}" is not an object`);
  const { dtype, shape, data_offsets: offsets } = value;
  const bits = typeof dtype === "string" ? FORMAT_BITS.get(dtype) : undefined;
  if (bits === undefined) {
    if (typeof dtype !== "string" || !/^[A-Z][A-Z\d_]{0,30}$/.test(dtype)) {
      return fail(`tensor "${name}" has the unknown type ${excerpt(dtype)}`);
    }
    throw new SyntaxError(
      `Cannot read "${path}": tensor "${name}" is stored as ${dtype}, which this program does not know; ` +
        "fetch the model in fp8, in bf16, or as GGUF",
    );
  }
  if (!isSizes(shape) || shape.length > MAX_RANK) {
    return fail(`tensor "${name}" has the shape ${excerpt(shape)}`);
  }
  if (!isSizes(offsets) || offsets.length !== 2) {
    return fail(`tensor "${name}" has the offsets ${excerpt(offsets)}`);
  }
  const [begin, end] = offsets as [number, number];
  const expected = elementCount(shape) * bits / 8;
  if (end - begin !== expected) {
    return fail(
      `tensor "${name}" of shape [${shape}] and type ${dtype} takes ${expected} bytes, its offsets span ${
        end - begin
      }`,
    );
  }
  if (dataStart + end > fileBytes) {
    return fail(`tensor "${name}" ends at byte ${dataStart + end}, the file has ${fileBytes}`);
  }
  return {
    name,
    format: dtype as string,
    shape,
    byteOffset: dataStart + begin,
    byteLength: expected,
  };
}

/** A value of the file as a message can hold it. What nests deeper than a stack goes is not shown. */
function excerpt(value: unknown): string {
  let text: string;
  try {
    text = JSON.stringify(value) ?? "none";
  } catch {
    return "of a nested value";
  }
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size >= 0);
}

/** What the data begins at a multiple of. */
const ALIGNMENT = 8;

/** Lays a file out, in the order of the tensors. Throws `RangeError` when safetensors has no such format. */
export function layOutSafetensors(
  tensors: readonly NewTensor[],
  metadata: Readonly<Record<string, string>> = {},
): FileLayout {
  let offset = 0;
  const starts: number[] = [];
  const entries = tensors.map(({ name, format, shape }) => {
    const bits = FORMAT_BITS.get(format);
    if (bits === undefined) {
      throw new RangeError(`Cannot write tensor "${name}" as ${format} into a safetensors file`);
    }
    starts.push(offset);
    const start = offset;
    offset += elementCount(shape) * bits / 8;
    return [name, { dtype: format, shape, data_offsets: [start, offset] }] as const;
  });
  const json = JSON.stringify(Object.fromEntries([["__metadata__", metadata], ...entries]));
  const text = new TextEncoder().encode(json);
  const header = new Uint8Array(8 + Math.ceil(text.byteLength / ALIGNMENT) * ALIGNMENT).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(header.byteLength - 8), true);
  header.set(text, 8);
  return {
    header,
    byteOffsets: starts.map((start) => header.byteLength + start),
    fileBytes: header.byteLength + offset,
  };
}
