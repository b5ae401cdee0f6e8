/** The adapters of a machine, as the Vulkan loader lists them: WebGPU lists none. Nothing stays open. */

export type AdapterKind = "other" | "integrated" | "discrete" | "virtual" | "cpu";

export interface VulkanAdapter {
  /** Marketing name. */
  readonly name: string;
  /** PCI id of the maker, or one of Vulkan's own. */
  readonly vendorId: number;
  /** The maker's id of the model. */
  readonly deviceId: number;
  readonly kind: AdapterKind;
  /** As the driver packs it; Mesa's major version stands from bit 22 on. */
  readonly driverVersion: number;
  /** Memory of its own, in bytes; the system's where it has none. */
  readonly memoryBytes: number;
  /** Place on the bus, such as `0000:01:00.0`; absent where the driver does not tell. */
  readonly pci?: string;
}

export interface VulkanListing {
  readonly adapters: readonly VulkanAdapter[];
  /** Whether Mesa's layer is there, which puts one adapter in front of the others. */
  readonly canSelect: boolean;
}

const LIBRARIES: Readonly<Partial<Record<typeof Deno.build.os, string>>> = {
  linux: "libvulkan.so.1",
  windows: "vulkan-1.dll",
};

const SELECT_LAYER = "VK_LAYER_MESA_device_select";
const PCI_EXTENSION = "VK_EXT_pci_bus_info";

const KINDS: readonly AdapterKind[] = ["other", "integrated", "discrete", "virtual", "cpu"];

const TYPES = {
  instanceInfo: 1,
  properties2: 1_000_059_001,
  pciBusInfo: 1_000_212_000,
};

/** Sizes in bytes, each rounded up: the specification's structures never shrink or grow. */
const SIZES = { instanceInfo: 64, appInfo: 48, properties: 1024, pciBusInfo: 32, memory: 1024 };
const LAYER_BYTES = 520;
const EXTENSION_BYTES = 260;
/** Offset of the heaps in `VkPhysicalDeviceMemoryProperties`. */
const HEAPS_AT = 264;
const DEVICE_LOCAL = 1;
const VULKAN_1_1 = (1 << 22) | (1 << 12);

const SYMBOLS = {
  vkCreateInstance: { parameters: ["buffer", "pointer", "buffer"], result: "i32" },
  vkDestroyInstance: { parameters: ["pointer", "pointer"], result: "void" },
  vkEnumerateInstanceLayerProperties: { parameters: ["buffer", "buffer"], result: "i32" },
  vkEnumeratePhysicalDevices: { parameters: ["pointer", "buffer", "buffer"], result: "i32" },
  vkGetPhysicalDeviceProperties2: { parameters: ["pointer", "buffer"], result: "void" },
  vkGetPhysicalDeviceMemoryProperties: { parameters: ["pointer", "buffer"], result: "void" },
  vkEnumerateDeviceExtensionProperties: {
    parameters: ["pointer", "pointer", "buffer", "buffer"],
    result: "i32",
  },
} as const;

type Vulkan = Deno.DynamicLibrary<typeof SYMBOLS>["symbols"];

export function listVulkanAdapters(): VulkanListing | undefined {
  const library = LIBRARIES[Deno.build.os];
  if (library === undefined) return undefined;
  let loaded: Deno.DynamicLibrary<typeof SYMBOLS>;
  try {
    loaded = Deno.dlopen(library, SYMBOLS);
  } catch {
    return undefined;
  }
  const instance = createInstance(loaded.symbols);
  if (instance === null) return undefined;
  try {
    const adapters = devicesOf(loaded.symbols, instance)
      .map((device) => describe(loaded.symbols, device));
    return { adapters, canSelect: layersOf(loaded.symbols).includes(SELECT_LAYER) };
  } finally {
    loaded.symbols.vkDestroyInstance(instance, null);
  }
}

function createInstance(vulkan: Vulkan): Deno.PointerValue {
  // What points to each other lies in one buffer, so that all of it lives during the call.
  const info = new DataView(new ArrayBuffer(SIZES.instanceInfo + SIZES.appInfo));
  info.setUint32(SIZES.instanceInfo + 44, VULKAN_1_1, true);
  info.setUint32(0, TYPES.instanceInfo, true);
  info.setBigUint64(24, addressOf(info, SIZES.instanceInfo), true);
  const instance = new BigUint64Array(1);
  if (vulkan.vkCreateInstance(bytesOf(info), null, instance) !== 0) return null;
  return Deno.UnsafePointer.create(instance[0]!);
}

function devicesOf(vulkan: Vulkan, instance: Deno.PointerValue): Deno.PointerValue[] {
  const count = new Uint32Array(1);
  vulkan.vkEnumeratePhysicalDevices(instance, count, null);
  const handles = new BigUint64Array(count[0]!);
  vulkan.vkEnumeratePhysicalDevices(instance, count, handles);
  return [...handles].map((handle) => Deno.UnsafePointer.create(handle));
}

function describe(vulkan: Vulkan, device: Deno.PointerValue): VulkanAdapter {
  const tellsPlace = extensionsOf(vulkan, device).includes(PCI_EXTENSION);
  const pci = SIZES.properties;
  const view = new DataView(new ArrayBuffer(SIZES.properties + SIZES.pciBusInfo));
  view.setUint32(0, TYPES.properties2, true);
  view.setUint32(pci, TYPES.pciBusInfo, true);
  if (tellsPlace) view.setBigUint64(8, addressOf(view, pci), true);
  vulkan.vkGetPhysicalDeviceProperties2(device, bytesOf(view));
  return {
    name: textAt(view, 16 + 20, 256),
    driverVersion: view.getUint32(16 + 4, true),
    vendorId: view.getUint32(16 + 8, true),
    deviceId: view.getUint32(16 + 12, true),
    kind: KINDS[view.getUint32(16 + 16, true)] ?? "other",
    memoryBytes: memoryOf(vulkan, device),
    ...(tellsPlace ? { pci: placeAt(view, pci) } : {}),
  };
}

/** The largest heap of its own. */
function memoryOf(vulkan: Vulkan, device: Deno.PointerValue): number {
  const view = new DataView(new ArrayBuffer(SIZES.memory));
  vulkan.vkGetPhysicalDeviceMemoryProperties(device, bytesOf(view));
  const heaps = view.getUint32(HEAPS_AT - 4, true);
  let most = 0;
  for (let heap = 0; heap < heaps; heap++) {
    const at = HEAPS_AT + heap * 16;
    const isOwn = (view.getUint32(at + 8, true) & DEVICE_LOCAL) !== 0;
    if (isOwn) most = Math.max(most, Number(view.getBigUint64(at, true)));
  }
  return most;
}

/** The place on the bus, as `lspci -D` writes it. */
function placeAt(view: DataView, at: number): string {
  const [domain, bus, device, func] = [16, 20, 24, 28].map((i) => view.getUint32(at + i, true));
  const hex = (value: number, length: number) => value.toString(16).padStart(length, "0");
  return `${hex(domain!, 4)}:${hex(bus!, 2)}:${hex(device!, 2)}.${func}`;
}

function layersOf(vulkan: Vulkan): string[] {
  return namesOf(
    LAYER_BYTES,
    (count, out) => vulkan.vkEnumerateInstanceLayerProperties(count, out),
  );
}

function extensionsOf(vulkan: Vulkan, device: Deno.PointerValue): string[] {
  return namesOf(
    EXTENSION_BYTES,
    (count, out) => vulkan.vkEnumerateDeviceExtensionProperties(device, null, count, out),
  );
}

/** The names that structures of a list begin with. */
function namesOf(
  bytes: number,
  list: (
    count: Uint32Array<ArrayBuffer>,
    out: Uint8Array<ArrayBuffer> | null,
  ) => void,
): string[] {
  const count = new Uint32Array(1);
  list(count, null);
  const view = new DataView(new ArrayBuffer(count[0]! * bytes));
  list(count, bytesOf(view));
  return Array.from({ length: count[0]! }, (_, index) => textAt(view, index * bytes, 256));
}

function textAt(view: DataView, at: number, length: number): string {
  const bytes = new Uint8Array(view.buffer, at, length);
  const end = bytes.indexOf(0);
  return new TextDecoder().decode(bytes.subarray(0, end < 0 ? length : end));
}

function bytesOf(view: DataView): Uint8Array<ArrayBuffer> {
  return new Uint8Array(view.buffer as ArrayBuffer);
}

function addressOf(view: DataView, at: number): bigint {
  return BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytesOf(view)))) + BigInt(at);
}
