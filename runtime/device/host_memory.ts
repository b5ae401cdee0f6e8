import { ARCH, type HostMemory, hostMemory, OS, readSystemText } from "../../platform/mod.ts";
import type { AdapterDescription } from "./device.ts";

/** How much of the machine's memory this process may still take: what is free, within the limits of its cgroups. */

type ReadText = (path: string) => string | undefined;

interface CgroupFiles {
  readonly root: string;
  readonly limit: string;
  readonly usage: string;
  /** What memory.stat calls cached file contents that the kernel gives up when memory is short. */
  readonly reclaimable: string;
}

const VERSION_1: CgroupFiles = {
  root: "/sys/fs/cgroup/memory",
  limit: "memory.limit_in_bytes",
  usage: "memory.usage_in_bytes",
  reclaimable: "total_inactive_file",
};

const VERSION_2: CgroupFiles = {
  root: "/sys/fs/cgroup",
  limit: "memory.max",
  usage: "memory.current",
  reclaimable: "inactive_file",
};

/** What programs take beside their tensors: traces, compiled kernels, pixels on their way to a file. */
const OWN_BYTES = 512e6;
/** Part of the free memory that is left to them where there is little, and to others where there is much. */
const SMALLEST_SHARE = 0.1;
const LARGEST_SHARE = 0.5;

/**
 * Bytes of host memory that tensors may take. A software adapter never says that memory ran out: the system ends the
 * process instead.
 */
export function usableHostBytes(free: number = freeHostBytes()): number {
  const kept = Math.min(Math.max(OWN_BYTES, free * SMALLEST_SHARE), free * LARGEST_SHARE);
  return Math.floor(free - kept);
}

/** Part of the system's memory that an adapter without memory of its own takes at most. */
export const UNIFIED_SHARE = 0.7;

/** Bytes that tensors take by default of the system's memory: drivers give all that is asked for, then the system swaps. */
export function unifiedBytes(
  total: number = hostMemory().total,
  usable: number = usableHostBytes(),
): number {
  return Math.floor(Math.min(total * UNIFIED_SHARE, usable));
}

/** Bytes of host memory that this process may still take. */
export function freeHostBytes(
  { available, free }: Pick<HostMemory, "available" | "free"> = hostMemory(),
  readText: (path: string) => string | undefined = readSystemText,
): number {
  const within = cgroupsOf(readText("/proc/self/cgroup") ?? "")
    .map(({ files, folder }) => freeBytesOf(files, folder, readText));
  // On Windows Deno says 0 for what is available, and gives that number as what is free.
  return Math.max(0, Math.min(available || free, ...within));
}

/** The process's memory cgroups and all that they lie in, whose limits count as well. */
function cgroupsOf(list: string): { readonly files: CgroupFiles; readonly folder: string }[] {
  return list.split("\n").flatMap((line) => {
    // hierarchy-ID:controllers:path, of version 2 without an ID and controllers
    const [, id, controllers, path] = /^(\d+):([^:]*):(.*)$/.exec(line) ?? [];
    if (path === undefined) return [];
    const files = id === "0" ? VERSION_2 : VERSION_1;
    if (files === VERSION_1 && !controllers!.split(",").includes("memory")) return [];
    // Inside a container the path may be the host's, and the container's own group is the root.
    const names = path.split("/").filter((name) => name !== "");
    return Array.from({ length: names.length + 1 }, (_, depth) => ({
      files,
      folder: [files.root, ...names.slice(0, depth)].join("/"),
    }));
  });
}

function freeBytesOf(files: CgroupFiles, folder: string, readText: ReadText): number {
  const numberIn = (name: string) => Number(readText(`${folder}/${name}`)?.trim() || NaN);
  const limit = numberIn(files.limit);
  // Version 2 says "max" where there is no limit, version 1 a number beyond any machine.
  if (Number.isNaN(limit)) return Infinity;
  const usage = numberIn(files.usage) || 0;
  const pattern = new RegExp(`^${files.reclaimable} (\\d+)$`, "m");
  const reclaimable = Number(pattern.exec(readText(`${folder}/memory.stat`) ?? "")?.[1] ?? 0);
  return limit - usage + reclaimable;
}

/** Makers, as WebGPU gives them: a PCI id in decimal, or a name. */
const makers = {
  intel: ["32902", "intel"],
  amd: ["4098", "amd"],
  nvidia: ["4318", "nvidia"],
};

/** Intel's cards: Arc A and B series, DG1. */
const INTEL_CARD = /\bArc\b.*\b[AB]\d{2,3}M?\b|\bDG[12]\b|\bBMG\b|\bXe MAX\b/i;
/** AMD's processors call their part just so; cards have a series in front of the number. */
const AMD_PROCESSOR = /\bGraphics\b|\bVega \d+\b|\bCustom GPU\b/i;
const AMD_CARD = /\b(RX|Pro|FirePro|Instinct|VII)\b/i;
/** NVIDIA's processors: boards with memory for both. */
const NVIDIA_PROCESSOR = /\b(Tegra|Orin|Xavier|Thor|GB10)\b/i;

/** Whether an adapter shares the system's memory: software, Apple's, parts of processors, and makers that are not known. */
export function isUnified(
  { name, vendor, isSoftware }: Pick<AdapterDescription, "name" | "vendor" | "isSoftware">,
  { os, arch }: { readonly os: string; readonly arch: string } = { os: OS, arch: ARCH },
): boolean {
  if (isSoftware || (os === "darwin" && arch === "aarch64")) return true;
  // Metal tells no maker.
  const isTold = !["", "0"].includes(vendor);
  const isOf = (maker: readonly string[]) =>
    isTold
      ? maker.includes(vendor.toLowerCase())
      : new RegExp(`\\b${maker.at(-1)}\\b`, "i").test(name);
  if (isOf(makers.intel)) return !INTEL_CARD.test(name);
  if (isOf(makers.amd)) return AMD_PROCESSOR.test(name) && !AMD_CARD.test(name);
  if (isOf(makers.nvidia)) return NVIDIA_PROCESSOR.test(name);
  return isTold;
}
