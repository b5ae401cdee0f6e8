/**
 * Puts a kernel together: parameter struct, bindings, accessor functions, entry point.
 *
 * A kernel's body is written against accessors, never against bindings: for a buffer `x` of width 4,
 * `x_at(i)` gives elements `4i … 4i+3` as `vec4<f32>`, whatever the storage format and however many bindings
 * the tensor is spread over; `x_put(i, v)` stores. So f16 and bf16 weights and tensors above the binding limit
 * cost the kernels nothing in code. Quantised weights have `x_at` too; kernels that walk along their rows may ask
 * for the scale once per run of accesses instead, see
 * `formats/blocks.wgsl`.
 *
 * The body defines `fn kernel(wg: vec3<u32>, local: vec3<u32>)`. `wg` is the workgroup's place in the whole
 * grid: a grid may be cut into several dispatches, so kernels never use `global_invocation_id`.
 */
import type { StorageFormat } from "../dtype.ts";
import type { WeightFormat } from "../quantization/block_format.ts";
import { isWeightFormat } from "../quantization/formats.ts";
import { type BufferSlot, isCounting, type Kernel, type WgslDialect } from "./kernel.ts";
import { expandInclude } from "./kernel_file.ts";

/** How a slot is bound: storage format and number of bindings of `pieceBytes` each. */
interface BufferBinding {
  readonly dtype: StorageFormat;
  readonly pieces: number;
  readonly pieceBytes: number;
}

/** Scalars that the runtime itself puts in front of a kernel's parameters: the grid offset of a dispatch. */
export const RESERVED_PARAMS = 3;

/** The complete WGSL of a kernel for the given bindings, in the order of `kernel.buffers`. */
export function assembleKernel(
  kernel: Kernel,
  bindings: readonly BufferBinding[],
  dialect: WgslDialect,
): string {
  const params = Object.entries(kernel.params).map(([name, type]) => `  ${name}: ${type},`);
  let binding = 1;
  const buffers = kernel.buffers.map((slot, i) => {
    const text = declareBuffer(slot, bindings[i]!, binding, kernel);
    binding += bindings[i]!.pieces;
    return text;
  });
  const [x, y, z] = kernel.workgroupSize;
  const { usesSubgroupId, subgroupSize } = kernel;
  const wgsl = `${directives(kernel, dialect)}struct Params {
  base_x: u32,
  base_y: u32,
  base_z: u32,
${params.join("\n")}
}
@group(0) @binding(0) var<uniform> params: Params;
${buffers.join("\n")}
${kernel.body}
@compute @workgroup_size(${x}, ${y}, ${z})${subgroupSize ? ` @subgroup_size(${subgroupSize})` : ""}
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>${
    usesSubgroupId ? ", @builtin(subgroup_id) subgroup: u32" : ""
  }) {
  kernel(group + vec3<u32>(params.base_x, params.base_y, params.base_z), local${
    usesSubgroupId ? ", subgroup" : ""
  });${isCounting(kernel) ? "\n  count_saturated();" : ""}
}
`;
  return dialect === "naga-f32" ? withIntegerHalves(wgsl) : wgsl;
}

/** Reads and writes halves by integer arithmetic in place of the built-in functions. */
function withIntegerHalves(wgsl: string): string {
  let text = wgsl;
  for (const [builtin, own, file] of INTEGER_HALVES) {
    const replaced = text.replace(builtin, own);
    if (replaced !== text) text = `${replaced}${expandInclude(file, { NAME: "halves" })}\n`;
  }
  return text;
}

const INTEGER_HALVES = [
  [/\bunpack2x16float\b/g, "halves_unpacked", "formats/unpack_f16.wgsl"],
  [/\bpack2x16float\b/g, "halves_pair", "formats/round_f16.wgsl"],
] as const;

/** One `enable` for every extension that the body makes use of. */
function directives({ usesF16, subgroupSize, body }: Kernel, dialect: WgslDialect): string {
  const extensions: string[] = usesF16 ? ["f16"] : [];
  if (dialect === "spec") {
    if (/\bsubgroup(_|[A-Z])/.test(body)) extensions.push("subgroups");
    if (/\bsubgroup_matrix_/.test(body)) extensions.push("chromium_experimental_subgroup_matrix");
    if (subgroupSize) extensions.push("subgroup_size_control");
  }
  return extensions.map((name) => `enable ${name};\n`).join("");
}

/** Bytes of one array element of the binding, and its WGSL type. */
function bindingElement(
  dtype: StorageFormat,
  width: 1 | 4,
  isHalf: boolean,
): { type: string; bytes: number; elements: number } {
  if (isWeightFormat(dtype)) return { type: "vec4<u32>", bytes: 16, elements: 4 };
  if (isHalf) return { type: "vec4<f16>", bytes: 8, elements: 4 };
  if (dtype === "f16" || dtype === "bf16") {
    return width === 4
      ? { type: "vec2<u32>", bytes: 8, elements: 4 }
      : { type: "u32", bytes: 4, elements: 2 };
  }
  return width === 4
    ? { type: `vec4<${dtype}>`, bytes: 16, elements: 4 }
    : { type: dtype, bytes: 4, elements: 1 };
}

function declareBuffer(
  slot: BufferSlot,
  binding: BufferBinding,
  first: number,
  { body }: Kernel,
): string {
  const { name, access, width } = slot;
  const { dtype, pieces, pieceBytes } = binding;
  if (access === "count") {
    return `@group(0) @binding(${first}) var<storage, read_write> ${name}_0: array<atomic<u32>>;
fn ${name}_add(i: u32) { atomicAdd(&${name}_0[i], 1u); }`;
  }
  if (isWeightFormat(dtype) && (width !== 4 || access !== "read")) {
    throw new TypeError(`Cannot bind ${dtype} blocks to "${name}": they are only read, by fours`);
  }
  const takesHalf = new RegExp(`\\b${name}_half\\(`).test(body);
  const isHalf = takesHalf && dtype === "f16" && width === 4;
  const element = bindingElement(dtype, width, isHalf);
  const lines: string[] = [];
  for (let piece = 0; piece < pieces; piece++) {
    lines.push(
      `@group(0) @binding(${
        first + piece
      }) var<storage, ${access}> ${name}_${piece}: array<${element.type}>;`,
    );
  }
  const pieceLength = pieceBytes / element.bytes;
  lines.push(`fn ${name}_word(i: u32) -> ${element.type} {`);
  for (let piece = 0; piece < pieces - 1; piece++) {
    lines.push(
      `  if (i < ${(piece + 1) * pieceLength}u) { return ${name}_${piece}[i - ${
        piece * pieceLength
      }u]; }`,
    );
  }
  lines.push(
    pieces === 1
      ? `  return ${name}_0[i];`
      : `  return ${name}_${pieces - 1}[i - ${(pieces - 1) * pieceLength}u];`,
    "}",
  );
  if (isWeightFormat(dtype)) lines.push(wordReader(name, pieces, pieceLength));
  if (isHalf) {
    lines.push(`fn ${name}_half(i: u32) -> vec4<f16> { return ${name}_word(i); }
fn ${name}_at(i: u32) -> vec4<f32> { return vec4<f32>(${name}_word(i)); }`);
  } else {
    lines.push(decoder(name, dtype, width));
    if (takesHalf) {
      lines.push(`fn ${name}_half(i: u32) -> vec4<f16> { return half4(${name}_at(i)); }`);
    }
  }
  if (access === "read_write") lines.push(storer(slot, dtype, pieces, pieceLength));
  return lines.join("\n");
}

/** `NAME_u32(i)`: one component of a `vec4<u32>`; software adapters pay for the whole of it otherwise. */
function wordReader(name: string, pieces: number, pieceLength: number): string {
  const lines = [`fn ${name}_u32(i: u32) -> u32 {`];
  for (let piece = 0; piece < pieces; piece++) {
    const index = piece === 0 ? "(i >> 2u)" : `(i >> 2u) - ${piece * pieceLength}u`;
    const load = `return ${name}_${piece}[${index}][i & 3u];`;
    const end = (piece + 1) * pieceLength;
    lines.push(piece < pieces - 1 ? `  if ((i >> 2u) < ${end}u) { ${load} }` : `  ${load}`);
  }
  return [...lines, "}"].join("\n");
}

function decoder(name: string, dtype: StorageFormat, width: 1 | 4): string {
  if (isWeightFormat(dtype)) {
    return `${decodersOf(name, dtype)}
fn ${name}_at(i: u32) -> vec4<f32> { return ${name}_scaled(i, ${name}_scale(i)); }`;
  }
  const at = `fn ${name}_at(i: u32) ->`;
  switch (dtype) {
    case "f16":
      return width === 4
        ? `${at} vec4<f32> { let w = ${name}_word(i); return vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y)); }`
        : `${at} f32 { let w = unpack2x16float(${name}_word(i >> 1u)); return select(w.x, w.y, (i & 1u) == 1u); }`;
    case "bf16":
      return width === 4
        ? `${at} vec4<f32> { let w = ${name}_word(i); return bitcast<vec4<f32>>(vec4<u32>(w.x << 16u, w.x & 0xffff0000u, w.y << 16u, w.y & 0xffff0000u)); }`
        : `${at} f32 { let w = ${name}_word(i >> 1u); return bitcast<f32>(select(w << 16u, w & 0xffff0000u, (i & 1u) == 1u)); }`;
    default:
      return `${at} ${width === 4 ? `vec4<${dtype}>` : dtype} { return ${name}_word(i); }`;
  }
}

const decoders = new Map<string, string>();

/** The functions of `formats/*.wgsl` for a buffer, expanded once. */
function decodersOf(name: string, format: WeightFormat): string {
  const key = `${format} ${name}`;
  let wgsl = decoders.get(key);
  if (wgsl === undefined) {
    decoders.set(key, wgsl = expandInclude(`formats/${format}.wgsl`, { NAME: name }));
  }
  return wgsl;
}

function storer(
  { name, width, isExact = false, isCounted = false, place }: BufferSlot,
  dtype: StorageFormat,
  pieces: number,
  pieceLength: number,
): string {
  const isHalf = dtype === "f16" || dtype === "bf16";
  if (isHalf && (width === 1 || (dtype === "bf16" && !isExact))) {
    throw new TypeError(
      `Cannot store ${dtype} elements one by one in buffer "${name}": write f32, or f16 by fours`,
    );
  }
  const pair = (pair: string) =>
    isExact ? `${name}_pair(v.${pair})` : `pack2x16float(${isCounted ? "within" : "v"}.${pair})`;
  const value = isHalf ? `vec2<u32>(${pair("xy")}, ${pair("zw")})` : "v";
  const type = isHalf ? "vec4<f32>" : width === 4 ? `vec4<${dtype}>` : dtype;
  const lines = isHalf && isExact
    ? [expandInclude(`formats/round_${dtype}.wgsl`, { NAME: name })]
    : [];
  lines.push(`fn ${name}_put(${place ? "at" : "i"}: u32, v: ${type}) {`);
  if (place) {
    const { run, step, first } = place;
    lines.push(`  let i = at / ${run}u * ${step}u + ${first}u + at % ${run}u;`);
  }
  if (isHalf && isCounted) lines.push("  let within = held(v);");
  for (let piece = 0; piece < pieces; piece++) {
    const index = piece === 0 ? "i" : `i - ${piece * pieceLength}u`;
    lines.push(
      piece < pieces - 1
        ? `  if (i < ${
          (piece + 1) * pieceLength
        }u) { ${name}_${piece}[${index}] = ${value}; return; }`
        : `  ${name}_${piece}[${index}] = ${value};`,
    );
  }
  lines.push("}");
  return lines.join("\n");
}
