import { type DeviceOptions, openDevice } from "../runtime/mod.ts";
import { runSelfTests } from "../runtime/adapter_check.ts";
import type { DeviceReport } from "./types.ts";

/**
 * Opens the adapter as an engine would and lets it compute.
 *
 * @throws {NoAdapterError} when there is none
 */
export async function inspect(options: DeviceOptions): Promise<DeviceReport> {
  const device = await openDevice(options);
  try {
    const { adapter, gpuDevice, target: { features, schedule } } = device;
    const optional = {
      f16: features.f16,
      subgroups: features.subgroups,
      timestamps: features.timestamps,
    };
    return {
      adapter: adapter.name,
      vendor: adapter.vendor,
      // WebGPU has no field for the driver; what it calls device is a PCI id.
      driver: "",
      isSoftware: adapter.isSoftware,
      limits: Object.fromEntries(LIMITS.map((name) => [name, gpuDevice.limits[name]])),
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
