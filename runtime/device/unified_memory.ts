/** Which adapters take the system's memory. WebGPU has no question for it, so the name tells. */
import type { AdapterDescription } from "./device.ts";

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

/**
 * Whether an adapter has no memory of its own: software, Apple's, and what is part of a processor. A maker that is not
 * known is taken for one of phones and small boards, whose memory is always shared.
 */
export function isUnified(
  { name, vendor, isSoftware }: Pick<AdapterDescription, "name" | "vendor" | "isSoftware">,
  { os, arch }: Pick<typeof Deno.build, "os" | "arch"> = Deno.build,
): boolean {
  if (isSoftware || (os === "darwin" && arch === "aarch64")) return true;
  const isOf = (maker: readonly string[]) => maker.includes(vendor.toLowerCase());
  if (isOf(makers.intel)) return !INTEL_CARD.test(name);
  if (isOf(makers.amd)) return AMD_PROCESSOR.test(name) && !AMD_CARD.test(name);
  if (isOf(makers.nvidia)) return NVIDIA_PROCESSOR.test(name);
  return vendor !== "";
}
