/**
 * Operands of the epilogue that a dispatch may have or not have with the same kernel. Software adapters compile a kernel for
 * a fifth of a second, and take next to no time for an operand that is not there.
 */
import { isFloat } from "../../dtype.ts";
import type { Tensor } from "../../graph/graph.ts";
import type { ParamValues } from "../../shaders/expand.ts";
import type { GemmProblem } from "./problem.ts";

/** What a product takes besides its own operands. */
interface AskedOperands {
  /** Parameters of its kernel, in place of those of the epilogue. */
  readonly asked: ParamValues;
  /** Stand-ins, which are bound and not read. */
  readonly buffers: Readonly<Record<string, Tensor>>;
  /** Uniforms. */
  readonly params: Readonly<Record<string, number>>;
}

/**
 * The epilogue with more operands than the product has.
 *
 * @returns nothing where they would be more than the adapter binds, or the epilogue is of another kind
 */
export function askedOperands(
  { m, n, batch, epilogue }: GemmProblem,
  isNormalised: boolean,
  buffers: Readonly<Record<string, Tensor>> & { readonly a: Tensor; readonly b: Tensor },
): AskedOperands | undefined {
  const { bias, gate, residual, parts, activation, scale, glu } = epilogue;
  if (batch || scale || glu) return undefined;
  const { a, b } = buffers;
  const { graph } = a;
  // Of the weight's format, as a bias is.
  const standIn = isFloat(b.dtype) ? b : a;
  const takesMore = activation === "none" && !isNormalised;
  const takesParts = activation === "none" && !gate && !residual || takesMore;
  const own: Record<string, Tensor> = {
    ...(!bias && { bias: standIn }),
    ...(takesMore && !gate && { gate: a }),
    ...(takesMore && !residual && { residual: a }),
  };
  const others = Object.values(own);
  const bindings = graph.bindingsOf([...Object.values(buffers), ...others]);
  if (
    bindings > graph.target.limits.maxStorageBuffers || graph.bindingsOf(others) > others.length
  ) {
    return undefined;
  }
  return {
    asked: {
      BIAS: true,
      ASKS_BIAS: true,
      ...(takesMore && { GATE: true, RESIDUAL: true, ASKS: true }),
      ...(takesParts && { PARTS: true }),
    },
    buffers: own,
    params: {
      has_bias: Number(bias),
      ...(takesMore && { has_gate: Number(gate), has_residual: Number(residual) }),
      ...(takesMore && !gate && { gate_rows: 1 }),
      ...(takesParts && !parts && { part_columns: n, part_size: m * n }),
    },
  };
}
