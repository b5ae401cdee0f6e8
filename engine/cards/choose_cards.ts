/** From the adapters of a machine to the cards of a server. */

import { ARCH, OS } from "../../platform/mod.ts";
import type { CardAddress } from "../options.ts";
import { listVulkanAdapters, type VulkanAdapter, type VulkanListing } from "./vulkan_adapters.ts";

export interface CardPlan {
  /** Number of the card, as `doctor` lists it; two workers may share one. */
  readonly gpu: number;
  /** The adapter as the driver names it; empty where nothing lists adapters. */
  readonly name: string;
  /** Memory that the driver tells of, in bytes; 0 where nothing lists adapters. */
  readonly memoryBytes: number;
  readonly address: CardAddress;
  /** How the cards of a group are opened that work together, itself included; it works alone by default. */
  readonly group?: readonly CardAddress[];
}

export type WantedCards = { readonly count: number } | { readonly gpus: readonly number[] };

/** What is known of a machine; this one's by default. */
interface Machine {
  /** What the Vulkan loader has; nothing where it cannot be asked. */
  readonly listing?: VulkanListing | undefined;
  /** The operating system, as in `OS`. */
  readonly os?: string;
  /** The processor, as in `ARCH`. */
  readonly arch?: string;
  /** Whether software adapters are wanted though there are GPUs. */
  readonly isSoftware?: boolean | undefined;
}

/**
 * Adapters that a server may use, in the order in which they are numbered: the fastest kind first; software adapters only
 * where there is nothing else, or they are asked for.
 */
export function usableAdapters(
  adapters: readonly VulkanAdapter[],
  software = false,
): VulkanAdapter[] {
  const gpus = adapters.filter(({ kind }) => kind !== "cpu")
    .sort((one, other) => RANKS.indexOf(one.kind) - RANKS.indexOf(other.kind));
  const others = adapters.filter(({ kind }) => kind === "cpu");
  return software || gpus.length === 0 ? others : gpus;
}

const RANKS: readonly VulkanAdapter["kind"][] = ["discrete", "integrated", "virtual", "other"];

export function chooseCards(
  wanted: WantedCards,
  machine: Machine = {},
): CardPlan[] {
  const { os = OS, arch = ARCH } = machine;
  const listing = "listing" in machine ? machine.listing : listVulkanAdapters();
  const adapters = usableAdapters(listing?.adapters ?? [], machine.isSoftware);
  if (adapters.length === 0) return chooseByPreference(wanted, os, arch);
  const isSoftware = adapters[0]!.kind === "cpu";
  const gpus = "gpus" in wanted
    ? wanted.gpus
    // Devices on the CPU share it anyway.
    : Array.from({ length: wanted.count }, (_, i) => isSoftware ? i % adapters.length : i);
  const missing = gpus.find((gpu) => adapters[gpu] === undefined);
  if (missing !== undefined) {
    const names = adapters.map(({ name }, gpu) => `GPU ${gpu}: ${name}`).join(", ");
    throw new RangeError(
      "count" in wanted
        ? `Cannot use ${wanted.count} GPUs: this machine has ${adapters.length} (${names}); ` +
          `use --num-gpus ${adapters.length}`
        : `Cannot use GPU ${missing}: there is none of that number (${names})`,
    );
  }
  const all = listing!.adapters;
  const isChoice = all.length > 1;
  if (isChoice && os !== "linux") return chooseByPreference(wanted, os, arch);
  if (isChoice && !listing!.canSelect) {
    throw new RangeError(
      "Cannot choose among GPUs: Mesa's device-select layer for Vulkan is not installed (Debian's package " +
        "mesa-vulkan-drivers has it); or start one server for each GPU, which VK_DRIVER_FILES or its container shows it",
    );
  }
  const lock = new SharedArrayBuffer(4);
  return gpus.map((gpu) => {
    const adapter = adapters[gpu]!;
    const sharers = gpus.filter((other) => usesSystemMemory(adapters[other]!)).length;
    return {
      gpu,
      name: adapter.name,
      memoryBytes: adapter.memoryBytes,
      address: {
        environment: { variables: isChoice ? selecting(adapter, all) : {}, lock },
        ...(usesSystemMemory(adapter) && sharers > 1 && { sharers }),
      },
    };
  });
}

/** Groups of cards that work together on each request. */
export function groupCards(plans: readonly CardPlan[], size: number): CardPlan[] {
  if (plans.length % size !== 0) {
    throw new RangeError(
      `Cannot make groups of ${size} GPUs of ${plans.length}: give a multiple of ${size}`,
    );
  }
  return Array.from({ length: plans.length / size }, (_, i) => {
    const members = plans.slice(i * size, (i + 1) * size);
    const memoryBytes = Math.min(...members.map(({ memoryBytes }) => memoryBytes));
    return { ...members[0]!, memoryBytes, group: members.map(({ address }) => address) };
  });
}

function usesSystemMemory({ kind }: VulkanAdapter): boolean {
  return kind === "cpu" || kind === "integrated";
}

/** Variables with which an adapter is the only one that is found. */
function selecting(
  adapter: VulkanAdapter,
  all: readonly VulkanAdapter[],
): Record<string, string> {
  const hex = (id: number) => id.toString(16).padStart(4, "0");
  const model = ({ vendorId, deviceId }: VulkanAdapter) => `${hex(vendorId)}:${hex(deviceId)}`;
  const isOnlyOne = all.filter((other) => model(other) === model(adapter)).length === 1;
  if (!isOnlyOne && adapter.pci === undefined) {
    throw new RangeError(
      `Cannot tell the GPUs named ${adapter.name} apart: their driver does not say where they are plugged in; ` +
        "start one server for each, in a container that shows it only that GPU",
    );
  }
  return {
    DENO_WEBGPU_BACKEND: "vulkan",
    MESA_VK_DEVICE_SELECT_FORCE_DEFAULT_DEVICE: "1",
    ...(isOnlyOne
      ? { MESA_VK_DEVICE_SELECT: model(adapter) }
      : { DRI_PRIME: `pci-${adapter.pci!.replaceAll(/[:.]/g, "_")}` }),
  };
}

/** Where nothing lists adapters, or nothing chooses among them: the faster one, and the one that saves power. */
function chooseByPreference(wanted: WantedCards, os: string, arch: string): CardPlan[] {
  const gpus = "gpus" in wanted ? wanted.gpus : Array.from({ length: wanted.count }, (_, i) => i);
  const second = gpus.find((gpu) => gpu > 0);
  if (second !== undefined && os === "darwin" && arch === "aarch64") {
    throw new RangeError(
      `Cannot use GPU ${second}: a Mac with a processor of Apple has one, GPU 0`,
    );
  }
  const beyond = gpus.find((gpu) => gpu > 1);
  if (beyond !== undefined) {
    throw new RangeError(
      `Cannot use GPU ${beyond}: on ${os} WebGPU offers two at most, 0 the faster one and 1 the one that saves power`,
    );
  }
  const preferences = ["high-performance", "low-power"] as const;
  return gpus.map((gpu) => ({
    gpu,
    name: "",
    memoryBytes: 0,
    address: { powerPreference: preferences[gpu]! },
  }));
}
