/** What a matrix product does with its sums before it stores them, shared by all its kernels. */
import { type Activation, activationWgsl } from "./activations.ts";
import type { BufferSlot, ParamType } from "./assemble.ts";
import {
  type GemmLowRank,
  lowRankBuffers,
  lowRankLoaders,
  lowRankName,
  lowRankParams,
} from "./gemm_low_rank.ts";

/**
 * Parts of y = residual + gate * activation(scale * sum + bias); those left out cost nothing. A low-rank branch is
 * added to the sum: every kernel walks along it before it calls `finish`.
 */
export interface GemmEpilogue {
  readonly scale: boolean;
  readonly bias: boolean;
  readonly activation: Activation;
  readonly gate: boolean;
  readonly residual: boolean;
  /** The columns are cut into equal parts, whose results lie one after the other. */
  readonly parts?: boolean;
  readonly lowRank?: GemmLowRank;
}

/** The parts in use, for the name of a kernel: empty, or ` bias silu gate residual`. */
export function epilogueName(epilogue: GemmEpilogue): string {
  const parts = [
    epilogue.scale && "scale",
    epilogue.bias && "bias",
    epilogue.activation !== "none" && epilogue.activation,
    epilogue.gate && "gate",
    epilogue.residual && "residual",
    epilogue.parts === true && "parts",
  ];
  const names = parts.filter((part) => part !== false).map((part) => ` ${part}`).join("");
  return `${lowRankName(epilogue.lowRank)}${names}`;
}

const PARTS_PLACE =
  "(column / params.part_columns) * params.part_size + row * params.part_columns + " +
  "column % params.part_columns";

/** Buffers that the epilogue reads, and the result `y`. */
export function epilogueBuffers(epilogue: GemmEpilogue, width: 1 | 4): BufferSlot[] {
  const read = (["bias", "gate", "residual"] as const).filter((name) => epilogue[name]);
  return [
    ...read.map((name): BufferSlot => ({ name, access: "read", width })),
    ...lowRankBuffers(epilogue.lowRank),
    { name: "y", access: "read_write", width },
  ];
}

/**
 * Parameters that the epilogue reads besides `n`; `gate_rows` is the number of rows that share a row of gates,
 * `part_size` the number of elements of a part.
 */
export function epilogueParams(epilogue: GemmEpilogue): Record<string, ParamType> {
  return {
    ...(epilogue.scale ? { scale: "f32" } : {}),
    ...(epilogue.gate ? { gate_rows: "u32" } : {}),
    ...(epilogue.parts ? { part_columns: "u32", part_size: "u32" } : {}),
    ...lowRankParams(epilogue.lowRank),
  };
}

/**
 * `fn finish(row: u32, column: u32, sum: T)` with `T` = `f32` or `vec4<f32>`: stores one result, or the four from
 * `column` on (then `n` and `column` are multiples of 4). With a low-rank branch also `t_four` and `up_four`.
 */
export function epilogueWgsl(epilogue: GemmEpilogue, width: 1 | 4): string {
  const type = width === 4 ? "vec4<f32>" : "f32";
  const word = (index: string) => (width === 4 ? `(${index}) / 4u` : index);
  const { activation, lowRank } = epilogue;
  const steps = [
    epilogue.scale && "v = v * params.scale;",
    epilogue.bias && `v = v + bias_at(${word("column")});`,
    activation !== "none" && `v = act_${activation}(v);`,
    epilogue.gate && `v = v * gate_at(${word("(row / params.gate_rows) * params.n + column")});`,
    epilogue.residual && "v = v + residual_at(at);",
  ].filter((step) => step !== false);
  return `${activation === "none" ? "" : activationWgsl(activation, type)}
${lowRank ? lowRankLoaders(lowRank) : ""}
fn finish(row: u32, column: u32, sum: ${type}) {
  let at = ${word(epilogue.parts ? PARTS_PLACE : "row * params.n + column")};
  var v = sum;
  ${steps.join("\n  ")}
  y_put(at, v);
}`;
}
