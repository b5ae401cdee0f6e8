import { type DeviceOptions, NoAdapterError, openDevice } from "../runtime/mod.ts";
import { runSelfTests } from "../runtime/adapter_check.ts";
import type { DeviceReport } from "./types.ts";

/**
 * Looks at the adapter and lets it compute.
 *
 * @throws {NoAdapterError} when there is none
 */
export async function inspect(options: DeviceOptions): Promise<DeviceReport> {
  const gpu = options.gpu ?? navigator.gpu;
  const adapter = await gpu?.requestAdapter({
    powerPreference: options.powerPreference ?? "high-performance",
    forceFallbackAdapter: options.forceFallbackAdapter ?? false,
  });
  if (!adapter) {
    throw new NoAdapterError("Cannot find a GPU: WebGPU offers no adapter on this machine");
  }
  const { info } = adapter;
  const limits: Record<string, number> = {};
  for (const name of LIMITS) limits[name] = adapter.limits[name];
  const device = await openDevice(options);
  try {
    const { features, schedule } = device.target;
    const optional = {
      f16: features.f16,
      subgroups: features.subgroups,
      timestamps: features.timestamps,
    };
    return {
      adapter: info.description || info.device || "unnamed adapter",
      vendor: info.vendor,
      driver: info.device,
      isSoftware: device.adapter.isSoftware,
      limits,
      features: [
        ...Object.entries(optional).filter(([, works]) => works).map(([name]) => name),
        `${schedule} kernels`,
      ],
      selfTests: await runSelfTests(device),
    };
  } finally {
    device.destroy();
  }
}

const LIMITS = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupStorageSize",
  "maxComputeWorkgroupsPerDimension",
] as const;
