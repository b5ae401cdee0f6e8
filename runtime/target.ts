import type { WgslDialect } from "./shaders/kernel.ts";

/** What the runtime must know of an adapter to choose kernels and to plan memory; needs no open device. */
export interface Target {
  /** `cpu` for software adapters (register tiles, no workgroup memory), `gpu` for the rest. */
  readonly schedule: "cpu" | "gpu";
  /** What may be bound, allocated and dispatched. */
  readonly limits: TargetLimits;
  /** Bytes that the offset of a binding must be a multiple of. */
  readonly offsetAlignment: number;
  /** What kernels may use. */
  readonly features: TargetFeatures;
  /** How kernels are written down. */
  readonly dialect: WgslDialect;
  /**
   * Work that one submit may hold, estimated so that it stays far below a desktop driver's watchdog of
   * about 2 s even on a slow member of the class.
   */
  readonly submitBudget: { readonly flops: number; readonly bytes: number };
  /**
   * The narrowest factors that kernels may multiply where the tensors hold more: `f16` allows f16 wherever no factor is
   * a weight stored as f32, `int8` also activations rounded to int8 row by row, and sums of 16 products in f16. All
   * other sums are f32. A kernel that rounds is used where it is allowed and faster; what is stored does not depend on this.
   */
  readonly operands: "f32" | "f16" | "int8";
  /** Variant to use per op name, for tests and benches; empty in production. */
  readonly forcedVariants: Readonly<Record<string, string>>;
  /** What a tuning run on this adapter measured; empty where there was none. */
  readonly choices: MeasuredChoices;
  /** Told of every choice of a variant: the tuning run and the doctor listen. */
  readonly onChoice?: (choice: Choice) => void;
}

/** Variants that were measured, by op and class of problem: those of all {@linkcode Target.operands}. */
export type MeasuredChoices = Readonly<
  Record<string, Readonly<Record<string, readonly VariantTiming[]>>>
>;

/** How long a variant took for the problem that stands for its class. */
export interface VariantTiming {
  /** Name of the variant. */
  readonly variant: string;
  /** Time of one call. */
  readonly microseconds: number;
}

/** Which variant an op took for a problem, and why. */
export interface Choice {
  /** Name of the op. */
  readonly op: string;
  /** Class of the problem, in words. */
  readonly problemClass: string;
  /** Name of the variant. */
  readonly variant: string;
  /** Every variant that may be chosen for the problem: the rule's own choice first. */
  readonly candidates: readonly string[];
  /** `measured` in a tuning run, or by the `rule`: the first of the target's class that takes the problem. */
  readonly reason: "forced" | "measured" | "rule";
  /** Adapter on which the variant was raced; left out where none of its class has raced it. */
  readonly racedOn?: string;
  /** What was measured of the candidates for this class, the preferred first; empty when nothing was. */
  readonly timings: readonly VariantTiming[];
}

/** Limits in the units of WebGPU; `maxBindingBytes` is rounded down to a multiple of 256. */
export interface TargetLimits {
  /** Largest range of a buffer in one binding. */
  readonly maxBindingBytes: number;
  /** Largest buffer. */
  readonly maxBufferBytes: number;
  /** Storage bindings of one kernel. */
  readonly maxStorageBuffers: number;
  /** Invocations of one workgroup. */
  readonly maxWorkgroupInvocations: number;
  /** Memory that a workgroup shares. */
  readonly maxWorkgroupMemoryBytes: number;
  /** Workgroups along one axis of a dispatch. */
  readonly maxWorkgroupsPerDimension: number;
}

/** Optional abilities, found by asking for them. */
export interface TargetFeatures {
  /** `enable f16;` */
  readonly f16: boolean;
  /** Subgroup operations. */
  readonly subgroups: boolean;
  /** Timestamps of passes, in ticks. */
  readonly timestamps: boolean;
  /** Sizes of a subgroup; 0 when subgroups are not available. */
  readonly subgroupMinSize: number;
  /** Largest size of a subgroup. */
  readonly subgroupMaxSize: number;
  /** Whether a kernel may ask for the size of its subgroups. */
  readonly subgroupSizeControl: boolean;
  /** Products of small matrices that a subgroup does at once; none where matrix units cannot be used. */
  readonly subgroupMatrices: readonly SubgroupMatrix[];
}

/** Matrices that a subgroup multiplies and adds at once: `m × k` times `k × n`. */
export interface SubgroupMatrix {
  /** WGSL type of the factors' elements, such as `f16`. */
  readonly componentType: string;
  /** WGSL type of the product's elements. */
  readonly resultComponentType: string;
  /** Rows of the first factor and of the product. */
  readonly m: number;
  /** Columns of the second factor and of the product. */
  readonly n: number;
  /** Columns of the first factor, rows of the second. */
  readonly k: number;
}

/** WebGPU's guaranteed limits: a target for planning and tests where no device is at hand. */
export const BASELINE_TARGET: Target = {
  schedule: "gpu",
  limits: {
    maxBindingBytes: 128 * 1024 * 1024,
    maxBufferBytes: 256 * 1024 * 1024,
    maxStorageBuffers: 8,
    maxWorkgroupInvocations: 256,
    maxWorkgroupMemoryBytes: 16 * 1024,
    maxWorkgroupsPerDimension: 65535,
  },
  offsetAlignment: 256,
  features: {
    f16: false,
    subgroups: false,
    timestamps: false,
    subgroupMinSize: 0,
    subgroupMaxSize: 0,
    subgroupSizeControl: false,
    subgroupMatrices: [],
  },
  dialect: "naga",
  submitBudget: { flops: 1e11, bytes: 5e9 },
  operands: "f16",
  forcedVariants: {},
  choices: {},
};
