/** From the adapters of a machine to an open device. */
import { OWN_GPU, withoutWaylandNoise } from "../platform/mod.ts";
import { type AdapterEnvironment, withEnvironment } from "./device/adapter_environment.ts";
import {
  type BackendChoice,
  defaultBackend,
  type GpuBackend,
  gpuOf,
} from "./device/backends/backend.ts";
import { openFaster } from "./backend_race.ts";
import { Device } from "./device/device.ts";
import { NoAdapterError } from "./errors.ts";
import { isUnified, unifiedBytes } from "./device/host_memory.ts";
import type { WgslDialect } from "./shaders/kernel.ts";
import type { SubgroupMatrix, Target, TargetFeatures, TargetLimits } from "./target.ts";

/** How to open a device. */
export interface DeviceOptions {
  /** Which WebGPU implementation; what `DENOISE_GPU_BACKEND` says by default, else Deno's own. */
  backend?: BackendChoice;
  /** What stands in for the implementation's entry point. */
  gpu?: GPU;
  /** Which adapter to ask for; `high-performance` by default. */
  powerPreference?: GPUPowerPreference;
  /** Use the software adapter even where there is a GPU. */
  forceFallbackAdapter?: boolean;
  /** What the driver's loader is told, where the machine has several adapters. */
  environment?: AdapterEnvironment;
  /**
   * Bytes of device memory that may be taken; by default no bound, and a share of the system's memory where the adapter
   * has none of its own.
   */
  maxBytes?: number;
  /** How many devices share the system's memory, where the adapter has none of its own; 1 by default. */
  sharers?: number;
  /** Kernel variant per op name; see {@linkcode Target.forcedVariants}. */
  forcedVariants?: Readonly<Record<string, string>>;
  /** Overrides the kernel schedule that the adapter's class would choose. */
  schedule?: Target["schedule"];
  /** What kernels may round their factors to, `f16` by default; see {@linkcode Target.operands}. */
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
 * @throws {NoAdapterError} when there is no adapter, or Dawn is wanted and not there
 */
export async function openDevice(options: DeviceOptions = {}): Promise<Device> {
  const choice = options.backend ?? defaultBackend();
  const openOn = (backend: GpuBackend) => open(options.gpu ?? gpuOf(backend), backend, options);
  return choice === "auto" ? await openFaster(openOn) : await openOn(choice);
}

async function open(gpu: GPU, backend: GpuBackend, options: DeviceOptions): Promise<Device> {
  const adapter = await requestAdapter(gpu, options);
  if (!adapter) {
    if (backend !== "dawn") {
      throw new NoAdapterError(backend === "browser" ? NO_BROWSER_ADAPTER : undefined);
    }
    throw new NoAdapterError(options.forceFallbackAdapter ? NO_DAWN_FALLBACK : NO_DAWN_ADAPTER);
  }
  const { limits, info } = adapter;
  const wanted: GPUFeatureName[] = [
    "shader-f16",
    "timestamp-query",
    SUBGROUPS,
    SUBGROUP_SIZE_CONTROL,
    SUBGROUP_MATRIX,
  ];
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
  const subgroups = granted.includes(SUBGROUPS);
  const features: TargetFeatures = {
    f16: granted.includes("shader-f16"),
    subgroups,
    timestamps: granted.includes("timestamp-query"),
    subgroupMinSize: subgroups ? (info.subgroupMinSize ?? 0) : 0,
    subgroupMaxSize: subgroups ? (info.subgroupMaxSize ?? 0) : 0,
    subgroupSizeControl: granted.includes(SUBGROUP_SIZE_CONTROL),
    subgroupMatrices: granted.includes(SUBGROUP_MATRIX) ? subgroupMatrices(info) : [],
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
    dialect: await dialectOf(adapter, device),
    // About a tenth of a second on a slow GPU, three on a slow software adapter: its threads wait for each other at every end.
    submitBudget: isSoftware ? { flops: 1e10, bytes: 3e9 } : { flops: 1e11, bytes: 5e9 },
    operands: options.operands ?? "f16",
    forcedVariants: options.forcedVariants ?? {},
    choices: {},
  };
  const named = { ...names(info), vendor: info.vendor, isSoftware, backend };
  const description = { ...named, isUnified: isUnified(named) };
  const maxBytes = options.maxBytes ??
    (description.isUnified ? unifiedBytes() / (options.sharers ?? 1) : Infinity);
  return new Device(device, target, description, maxBytes);
}

/** Implementations that list subgroups want them enabled, as the specification says; only naga is short of functions. */
async function dialectOf({ features }: GPUAdapter, device: GPUDevice): Promise<WgslDialect> {
  if (features.has(SUBGROUPS)) return "spec";
  if (device.features.has("shader-f16")) return "naga";
  device.pushErrorScope("validation");
  device.createShaderModule({
    code: "@compute @workgroup_size(1) fn main() { let half = unpack2x16float(0u); }",
  });
  return await device.popErrorScope() ? "naga-f32" : "naga";
}

/**
 * Dawn gives the adapter's name as device and its driver as description, Deno a PCI id and the adapter's name; browsers
 * give vendor and architecture, or nothing.
 */
function names(
  { device, description, vendor, architecture }: GPUAdapterInfo,
): { name: string; driver: string } {
  const isNumber = /^\d*$/.test(device);
  if (!isNumber) return { name: device, driver: description };
  const name = description || device || [vendor, architecture].filter(Boolean).join(" ");
  return { name: name || "unnamed adapter", driver: "" };
}

/** Matrix units as Dawn names them until they are in the standard. */
interface SubgroupMatrixConfig {
  readonly componentType: string;
  readonly resultComponentType: string;
  readonly M: number;
  readonly N: number;
  readonly K: number;
}

function subgroupMatrices(info: GPUAdapterInfo): SubgroupMatrix[] {
  const { subgroupMatrixConfigs = [] } = info as { subgroupMatrixConfigs?: SubgroupMatrixConfig[] };
  return [...subgroupMatrixConfigs].map(
    ({ componentType, resultComponentType, M: m, N: n, K: k }) => ({
      componentType,
      resultComponentType,
      m,
      n,
      k,
    }),
  );
}

function tighter(own: TargetLimits, wanted: Partial<TargetLimits>): TargetLimits {
  const entries = Object.entries(own).map(([name, value]) => [
    name,
    Math.min(value, wanted[name as keyof TargetLimits] ?? value),
  ]);
  return Object.fromEntries(entries) as unknown as TargetLimits;
}

const SUBGROUPS = "subgroups" as GPUFeatureName;
const SUBGROUP_SIZE_CONTROL = "subgroup-size-control" as GPUFeatureName;
const SUBGROUP_MATRIX = "chromium-experimental-subgroup-matrix" as GPUFeatureName;

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

async function requestAdapter(gpu: GPU, options: DeviceOptions): Promise<GPUAdapter | null> {
  const { powerPreference = "high-performance", forceFallbackAdapter = false } = options;
  return await withEnvironment(
    options.environment,
    () => withoutWaylandNoise(() => gpu.requestAdapter({ powerPreference, forceFallbackAdapter })),
  );
}

const NO_BROWSER_ADAPTER =
  "Cannot find a GPU: this browser offers no WebGPU adapter; use Chrome, Edge, Firefox or Safari in a version of " +
  "this year, turn hardware acceleration on, and open the page over https";

const NO_DAWN_ADAPTER = "Cannot find a GPU: Dawn offers no adapter on this machine" +
  (OWN_GPU === "dawn"
    ? "; install or update the driver of the GPU, and see that this user may use it"
    : ", where Deno's own WebGPU may have one, since Dawn asks more of drivers (of Mesa's software driver, " +
      "version 25); use --gpu-backend deno");

const NO_DAWN_FALLBACK =
  "Cannot find a software adapter: Dawn counts none but SwiftShader as such; leave --software out where there is " +
  "no GPU, or use --gpu-backend deno";

/** Listed features are trusted; `subgroups` is probed, because Deno does not list it where it works. */
async function canOpen(
  gpu: GPU,
  options: DeviceOptions,
  adapter: GPUAdapter,
  feature: GPUFeatureName,
): Promise<boolean> {
  if (adapter.features.has(feature)) return true;
  if (feature !== SUBGROUPS) return false;
  try {
    // A probe takes an adapter of its own: implementations may let an adapter open one device only.
    const probe = await requestAdapter(gpu, options);
    const device = await probe?.requestDevice({ requiredFeatures: [feature] });
    const works = device?.features.has(feature) ?? false;
    device?.destroy();
    return works;
  } catch {
    return false;
  }
}
