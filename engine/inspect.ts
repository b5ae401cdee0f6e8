import { listChoices, openDevice } from "../runtime/mod.ts";
import { runSelfTests } from "../runtime/adapter_check.ts";
import { dumpKernels } from "../runtime/kernel_sources.ts";
import { openChosenDevice, tuningRecordOf } from "./tuned_device.ts";
import type { DeviceSettings, TuningSettings } from "./protocol.ts";
import type { DeviceReport } from "./reports.ts";

export async function inspect(
  options: DeviceSettings,
  { tuning, dumpFolder }: { tuning?: TuningSettings; dumpFolder?: string },
  onCheck: (name: string, fraction: number) => void,
): Promise<DeviceReport> {
  using device = tuning
    ? await openChosenDevice(options, tuning.folder, () => {})
    : await openDevice(options);
  const record = tuning && await tuningRecordOf(device, tuning.folder);
  if (record?.state === "tuned") device.applyTuning(record.tuning);
  const { adapter, gpuDevice, target } = device;
  const { features, schedule } = target;
  const optional = {
    f16: features.f16,
    subgroups: features.subgroups,
    "subgroup matrices": features.subgroupMatrices.length > 0,
    timestamps: features.timestamps,
  };
  return {
    adapter: adapter.name,
    vendor: adapter.vendor,
    driver: adapter.driver,
    backend: adapter.backend,
    isSoftware: adapter.isSoftware,
    isUnified: adapter.isUnified,
    ...(Number.isFinite(device.maxBytes) && { maxBytes: device.maxBytes }),
    limits: Object.fromEntries(LIMITS.map((name) => [name, gpuDevice.limits[name]])),
    features: [
      ...Object.entries(optional).filter(([, works]) => works).map(([name]) => name),
      `${schedule} kernels`,
    ],
    selfTests: await runSelfTests(device, undefined, onCheck),
    kernels: listChoices(target),
    ...(dumpFolder !== undefined && {
      dump: { folder: dumpFolder, files: await dumpKernels(target, dumpFolder) },
    }),
    ...(record?.state === "tuned" && {
      tuned: { path: record.path, date: record.date, seconds: record.tuning.seconds },
    }),
  };
}

const LIMITS = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupStorageSize",
  "maxComputeWorkgroupsPerDimension",
] as const;
