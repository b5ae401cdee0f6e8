/** How much memory a card has, without taking it: WebGPU does not tell, but drivers and systems do. */

import { ARCH, OS } from "../../platform/mod.ts";
import { usableHostBytes } from "../../runtime/mod.ts";
import { listVulkanAdapters, type VulkanAdapter } from "./vulkan_adapters.ts";

/** What is left of a card's own memory beside the driver and the desktop. */
const USABLE_SHARE = 0.95;

let listed: readonly VulkanAdapter[] | undefined;

/** Bytes that an adapter of a name will give, about; nothing where nobody tells. */
export function likelyBytes(
  name: string,
  adapters: readonly VulkanAdapter[] = listed ??= listVulkanAdapters()?.adapters ?? [],
  { os, arch }: { readonly os: string; readonly arch: string } = { os: OS, arch: ARCH },
): number | undefined {
  const adapter = adapters.find((each) => each.name === name);
  if (adapter?.kind === "discrete") return Math.floor(adapter.memoryBytes * USABLE_SHARE);
  const usesSystemMemory = adapter?.kind === "integrated" || adapter?.kind === "cpu" ||
    (os === "darwin" && arch === "aarch64");
  return usesSystemMemory ? usableHostBytes() : undefined;
}
