/** From the adapters of a machine to an open device. */
import { Device } from "./device.ts";
import { NoAdapterError } from "./errors.ts";
import type { Target, TargetFeatures, TargetLimits } from "./target.ts";

/** How to open a device. */
export interface DeviceOptions {
  /** The WebGPU implementation; Deno's own by default. */
  gpu?: GPU;
  /** Which adapter to ask for; `high-performance` by default. */
  powerPreference?: GPUPowerPreference;
  /** Use the software adapter even where there is a GPU. */
  forceFallbackAdapter?: boolean;
  /** Bytes of device memory that may be taken; by default no bound, for software adapters the machine's free memory. */
  maxBytes?: number;
  /** Kernel variant per op name; see {@linkcode Target.forcedVariants}. */
  forcedVariants?: Readonly<Record<string, string>>;
  /** Overrides the kernel schedule that the adapter's class would choose. */
  schedule?: Target["schedule"];
  /** What kernels may round their operands to, `f32` by default; see {@linkcode Target.operands}. */
  operands?: Target["operands"];
  /** Limits to keep to where they are tighter than the adapter's; bytes in multiples of 256. */
  limits?: Partial<TargetLimits>;
}

/**
 * Opens the best adapter of this machine with its own limits.
 *
 * Optional features are found by asking for them one by one, because Deno's `adapter.features` omits some
 * that work (`subgroups`).
 *
 * @throws {NoAdapterError} when there is no adapter
 */
export async function openDevice(options: DeviceOptions = {}): Promise<Device> {
  const gpu = options.gpu ?? navigator.gpu;
  const adapter = await requestAdapter(gpu, options);
  const { limits, info } = adapter;
  const wanted: GPUFeatureName[] = ["shader-f16", "subgroups" as GPUFeatureName, "timestamp-query"];
  const requiredLimits: Record<string, number> = {};
  for (const name of LIMIT_NAMES) requiredLimits[name] = limits[name];
  const granted: GPUFeatureName[] = [];
  for (const feature of wanted) {
    if (await canOpen(gpu, options, adapter, feature)) granted.push(feature);
  }
  const device = await adapter.requestDevice({
    label: "denoise",
    requiredFeatures: granted,
    requiredLimits,
  });
  const isSoftware = info.isFallbackAdapter ?? false;
  const schedule = options.schedule ?? (isSoftware ? "cpu" : "gpu");
  const subgroups = granted.includes("subgroups" as GPUFeatureName);
  const features: TargetFeatures = {
    f16: granted.includes("shader-f16"),
    subgroups,
    timestamps: granted.includes("timestamp-query"),
    subgroupMinSize: subgroups ? (info.subgroupMinSize ?? 0) : 0,
    subgroupMaxSize: subgroups ? (info.subgroupMaxSize ?? 0) : 0,
  };
  const own: TargetLimits = {
    maxBindingBytes: Math.floor(Math.min(limits.maxStorageBufferBindingSize, 2 ** 31 - 4) / 256) *
      256,
    maxBufferBytes: limits.maxBufferSize,
    maxStorageBuffers: limits.maxStorageBuffersPerShaderStage,
    maxWorkgroupInvocations: limits.maxComputeInvocationsPerWorkgroup,
    maxWorkgroupMemoryBytes: limits.maxComputeWorkgroupStorageSize,
    maxWorkgroupsPerDimension: limits.maxComputeWorkgroupsPerDimension,
  };
  const target: Target = {
    schedule,
    limits: tighter(own, options.limits ?? {}),
    offsetAlignment: limits.minStorageBufferOffsetAlignment,
    features,
    // About a tenth of a second on a slow member of each class.
    submitBudget: isSoftware ? { flops: 1e9, bytes: 3e8 } : { flops: 1e11, bytes: 5e9 },
    operands: options.operands ?? "f32",
    forcedVariants: options.forcedVariants ?? {},
    choices: {},
  };
  const description = {
    name: info.description || info.device || "unnamed adapter",
    vendor: info.vendor,
    isSoftware,
  };
  const maxBytes = options.maxBytes ?? (isSoftware ? freeHostBytes() : Infinity);
  return new Device(device, target, description, maxBytes);
}

/** A software adapter never says that memory ran out: the system ends the process instead. */
function freeHostBytes(): number {
  return Math.floor(Deno.systemMemoryInfo().available * 0.9);
}

function tighter(own: TargetLimits, wanted: Partial<TargetLimits>): TargetLimits {
  const entries = Object.entries(own).map(([name, value]) => [
    name,
    Math.min(value, wanted[name as keyof TargetLimits] ?? value),
  ]);
  return Object.fromEntries(entries) as unknown as TargetLimits;
}

const LIMIT_NAMES = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupSizeZ",
  "maxComputeWorkgroupStorageSize",
  "maxComputeWorkgroupsPerDimension",
  "minStorageBufferOffsetAlignment",
] as const;

async function requestAdapter(gpu: GPU | undefined, options: DeviceOptions): Promise<GPUAdapter> {
  const adapter = await gpu?.requestAdapter({
    powerPreference: options.powerPreference ?? "high-performance",
    forceFallbackAdapter: options.forceFallbackAdapter ?? false,
  });
  if (!adapter) throw new NoAdapterError();
  return adapter;
}

/** Listed features are trusted; `subgroups` is probed, because Deno does not list it where it works. */
async function canOpen(
  gpu: GPU,
  options: DeviceOptions,
  adapter: GPUAdapter,
  feature: GPUFeatureName,
): Promise<boolean> {
  if (adapter.features.has(feature)) return true;
  if (feature !== ("subgroups" as GPUFeatureName)) return false;
  try {
    // A probe takes an adapter of its own: implementations may let an adapter open one device only.
    const probe = await requestAdapter(gpu, options);
    const device = await probe.requestDevice({ requiredFeatures: [feature] });
    const works = device.features.has(feature);
    device.destroy();
    return works;
  } catch {
    return false;
  }
}
