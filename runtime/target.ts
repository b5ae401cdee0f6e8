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
  /**
   * Work that one submit may hold, estimated so that it stays far below a desktop driver's watchdog of
   * about 2 s even on a slow member of the class.
   */
  readonly submitBudget: { readonly flops: number; readonly bytes: number };
  /** Variant to use per op name, for tests and benches; empty in production. */
  readonly forcedVariants: Readonly<Record<string, string>>;
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
  },
  submitBudget: { flops: 1e11, bytes: 5e9 },
  forcedVariants: {},
};
