/** What a user gains by another driver. */
import { OS } from "../platform/mod.ts";
import type { VulkanAdapter } from "./cards/vulkan_adapters.ts";

/** Mesa's AMD driver before this version spills registers of RDNA3 in half of the kernels; 25.0 does not. */
const LEAST_MESA = 23;

/** Whether an adapter's kernels go through Direct3D 12's old compiler: Deno's WebGPU has neither f16 nor subgroups there. */
export function isDirect3D(
  { backend, f16, subgroups }: { backend: string; f16: boolean; subgroups: boolean },
  os: string = OS,
): boolean {
  return os === "windows" && backend === "deno" && !f16 && !subgroups;
}

/** What to do about Direct3D 12, whose compiler took 30 s for one product kernel. */
export function direct3DAdvice(name: string): string {
  return `${name} is reached through Direct3D 12, which compiles a large kernel for half a minute at every start: ` +
    "install the newest driver of the card's maker, which brings Vulkan, or start with --gpu-backend dawn";
}

/** What to do about a Vulkan driver that makes slow code. */
export function vulkanAdvice({ name, driverVersion }: VulkanAdapter): string | undefined {
  const major = driverVersion >>> 22;
  if (!/RADV NAVI3/i.test(name) || major >= LEAST_MESA) return undefined;
  return `Mesa ${major} keeps too few registers for ${name}, which makes half of the kernels slower: install Mesa 25 or newer`;
}
