/** Makers of adapters. */

/** Makers by the number that Vulkan knows them by. */
const VENDORS: ReadonlyMap<number, string> = new Map([
  [0x1002, "AMD"],
  [0x1010, "Imagination"],
  [0x106b, "Apple"],
  [0x10de, "NVIDIA"],
  [0x13b5, "Arm"],
  [0x1414, "Microsoft"],
  [0x5143, "Qualcomm"],
  [0x8086, "Intel"],
  [0x10005, "Mesa"],
]);

/** The name of a maker, which WebGPU gives as a name or as a number in decimal digits. */
export function vendorName(vendor: string): string {
  if (!/^\d+$/.test(vendor)) return vendor;
  const id = Number(vendor);
  return `${VENDORS.get(id) ?? "unknown"} (0x${id.toString(16)})`;
}
