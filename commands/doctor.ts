/** `denoise doctor`. */

import {
  direct3DAdvice,
  inspectDevice,
  isDirect3D,
  listVulkanAdapters,
  measureDevice,
  usableAdapters,
  type VulkanAdapter,
  vulkanAdvice,
} from "../engine/mod.ts";
import type { DeviceReport } from "../engine/reports.ts";
import { CATALOGUE } from "../hub/catalogue.ts";
import { suitingModels } from "../hub/precision.ts";
import { findFfmpeg } from "../media/video/mod.ts";
import { version } from "../mod.ts";
import { vendorName } from "../report/vendor.ts";
import { DEVICE_FLAGS, DOCTOR_FLAGS, type DoctorFlags } from "./flags.ts";
import { describeKernels } from "./tune.ts";
import { pick } from "./model_options.ts";
import { print, tell } from "./print.ts";
import { ProgressBar } from "./progress_bar.ts";

const MOST_BYTES = 48e9;

const NOT_TOLD = "not told by WebGPU";

const OUTCOMES = { passed: "ok     ", failed: "FAILED ", skipped: "skipped" } as const;

export async function runDoctor(flags: DoctorFlags): Promise<number> {
  const adapter = pick(flags, DEVICE_FLAGS);
  // A driver may take half a minute to compile one kernel.
  const bar = ProgressBar.ofLongWork();
  const report = await inspectDevice({
    ...adapter,
    ...pick(flags, { dumpFolder: DOCTOR_FLAGS.dumpFolder }),
    tuning: "cached",
  }, ({ name, fraction }) => bar.show(fraction, "Checking", name)).finally(() => bar.clear());
  print(describeReport(report));
  const listing = listVulkanAdapters();
  const gpus = usableAdapters(listing?.adapters ?? [], flags.forceSoftware);
  if (gpus.length > 1) print(describeGpus(gpus, listing!.canSelect));
  const bytes = report.maxBytes ?? await measureDevice(adapter, MOST_BYTES);
  print(`Models    ${describeModels(report, bytes)}`);
  print(`Video     ${(await findFfmpeg()).description}`);
  if (flags.kernels) print(["Kernels", ...describeKernels(report.kernels)].join("\n"));
  if (report.dump) print(`Wrote ${report.dump.files} kernels to ${report.dump.folder}`);
  for (const advice of describeAdvice(report, gpus)) print(advice);
  const problem = findProblem(report);
  if (problem === undefined) return 0;
  tell(`denoise: ${problem}`);
  return 1;
}

function describeModels({ isSoftware }: DeviceReport, bytes: number): string {
  const names = suitingModels(CATALOGUE, bytes, 3)
    .map(({ model, precision }) => `${model.name} in ${precision.toUpperCase()}`);
  const memory = `${(bytes / 1e9).toFixed(1)} GB`;
  if (names.length === 0) return `the bundled one; ${memory} hold no other without streaming`;
  const words = names.length === 1
    ? names[0]!
    : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
  return isSoftware
    ? `the bundled one; ${words} fit into ${memory}, and take minutes to hours on a CPU`
    : `${words} suit ${memory}; fetch one with denoise pull NAME`;
}

export function describeGpus(
  gpus: readonly VulkanAdapter[],
  canSelect: boolean,
  os: string = Deno.build.os,
): string {
  const lines = gpus.map(({ name, kind, memoryBytes, pci }, gpu) => {
    const memory = kind === "discrete" ? `, ${(memoryBytes / 1e9).toFixed(1)} GB` : "";
    return `  ${gpu}  ${name} (${kind === "cpu" ? "software" : kind}${memory}${
      pci ? `, ${pci}` : ""
    })`;
  });
  const use = canSelect
    ? `  denoise serve --num-gpus ${gpus.length} uses them all, --gpus 1 the second alone`
    : os === "linux"
    ? "  one alone can be used: Mesa's device-select layer for Vulkan is not installed (mesa-vulkan-drivers)"
    : "  --gpus counts otherwise here: 0 is the faster one, 1 the one that saves power";
  return ["GPUs", ...lines, use].join("\n");
}

export function describeReport(report: DeviceReport): string {
  const { os, arch } = Deno.build;
  const lines = [
    `denoise   ${version}, Deno ${Deno.version.deno}, ${os} ${arch}`,
    `Adapter   ${report.adapter}${report.isSoftware ? " (software: it computes on the CPU)" : ""}`,
    `Vendor    ${vendorName(report.vendor) || NOT_TOLD}`,
    `Driver    ${/^0?$/.test(report.driver) ? NOT_TOLD : report.driver}`,
    `Kernels   ${describeTuned(report)}`,
    `WebGPU    ${report.backend === "dawn" ? "Dawn" : "Deno's own"}`,
    `Features  ${report.features.join(", ") || "none"}`,
    `Memory    ${describeMemory(report)}`,
    "Limits",
    ...Object.entries(report.limits).map(([name, value]) => `  ${name.padEnd(36)} ${value}`),
    "Self-test",
    ...report.selfTests.map(({ name, outcome, detail }) =>
      `  ${OUTCOMES[outcome]} ${name}${detail ? `: ${detail}` : ""}`
    ),
  ];
  return lines.join("\n");
}

/** What another driver would give. */
function describeAdvice(
  { adapter, backend, features }: DeviceReport,
  gpus: readonly VulkanAdapter[],
): string[] {
  const direct3D = isDirect3D({
    backend,
    f16: features.includes("f16"),
    subgroups: features.includes("subgroups"),
  });
  const slow = gpus.map(vulkanAdvice).filter((advice) => advice !== undefined);
  return [...(direct3D ? [direct3DAdvice(adapter)] : []), ...slow].map((text) =>
    `Advice    ${text}`
  );
}

export function findProblem(report: DeviceReport): string | undefined {
  const failed = report.selfTests.filter(({ outcome }) => outcome === "failed")
    .map(({ name }) => name);
  if (failed.length > 0) {
    return `Cannot trust ${report.adapter}: its self-test failed in ${failed.join(", ")}; ` +
      "update its driver, or use the software adapter with --software";
  }
  if (report.selfTests.every(({ outcome }) => outcome === "skipped")) {
    return `Cannot tell whether ${report.adapter} computes right: no self-test could run`;
  }
  return undefined;
}

function describeTuned({ tuned }: DeviceReport): string {
  if (!tuned) return 'chosen by rule; "denoise tune" measures them';
  const when = tuned.date.toISOString().slice(0, 16).replace("T", " ");
  return `measured on ${when} UTC in ${tuned.seconds.toFixed(1)} s, kept in ${tuned.path}`;
}

function describeMemory({ isUnified, maxBytes }: DeviceReport): string {
  if (maxBytes === undefined) return "its own; how much is found by taking it";
  const most = `${(maxBytes / 1e9).toFixed(1)} GB may be taken; --max-vram allows more`;
  return isUnified ? `the system's: ${most}` : most;
}
