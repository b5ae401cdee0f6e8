/** What a kernel is: its text, and the buffers and parameters that the text is written against. */

/**
 * What the compiler of WGSL expects: `spec` follows the specification, so that extensions are enabled by directives;
 * `naga` (in Deno) refuses the directive of subgroups and has no subgroup matrices; `naga-f32` is naga on an adapter without
 * f16, where it refuses `unpack2x16float` and `pack2x16float` too.
 */
export type WgslDialect = "naga" | "naga-f32" | "spec";

/** WGSL type of one kernel parameter. */
export type ParamType = "u32" | "i32" | "f32";

/** A buffer as the kernel sees it. */
export interface BufferSlot {
  /** Prefix of its accessors. */
  readonly name: string;
  /** Whether the kernel stores to it; counters are only added to, by all at once. */
  readonly access: "read" | "read_write" | "count";
  /** Elements per access: `x_at` gives a scalar, or a `vec4`. */
  readonly width: 1 | 4;
  /**
   * What is stored is rounded to nearest, ties to even, on every adapter, and bf16 can be stored; f16 is rounded as the
   * driver does it otherwise.
   */
  readonly isExact?: boolean;
  /** What is stored as f16 is counted where f16 does not hold it; see `shared/saturation.wgsl`. */
  readonly isCounted?: boolean;
  /** Where in the tensor its elements lie, of a slot that is only written; one after the other by default. */
  readonly place?: SlotPlace;
}

/** Columns of rows, in accesses: the first of a row lies at `first`, `run` are neighbours, and rows are `step` apart. */
export interface SlotPlace {
  /** Accesses of a row. */
  readonly run: number;
  /** Distance from one row to the next. */
  readonly step: number;
  /** Offset of the first row. */
  readonly first: number;
}

/** A kernel, complete but for the storage format and size of the tensors that it is bound to. */
export interface Kernel {
  /** Names the pipeline and the row in profiles; holds every specialisation of the body. */
  readonly name: string;
  /** Bound in this order, after the parameters. */
  readonly buffers: readonly BufferSlot[];
  /** WGSL type by parameter name, in this order. */
  readonly params: Readonly<Record<string, ParamType>>;
  /** Invocations along x, y and z. */
  readonly workgroupSize: readonly [number, number, number];
  /** WGSL: constants, helpers and `fn kernel(wg: vec3<u32>, local: vec3<u32>)`; parameters are `params.NAME`. */
  readonly body: string;
  /** Factors of products are rounded to f16, as {@linkcode Target.operands} may forbid: needs `enable f16;`. */
  readonly usesF16?: boolean;
  /** `fn kernel` takes the number of its subgroup as third argument, `subgroup: u32`. */
  readonly usesSubgroupId?: boolean;
  /** Invocations that every subgroup shall have, where the adapter could choose another number. */
  readonly subgroupSize?: number;
}

/** Whether a kernel counts factors that f16 does not hold; see `shared/half.wgsl`. */
export function isCounting({ buffers }: Kernel): boolean {
  return buffers.some(({ access }) => access === "count");
}
