/** What a tuning run's results hold for: this adapter, as it is, and these kernels. */
import type { Device } from "../device.ts";
import { kernelSource } from "../executable.ts";
import type { Target } from "../target.ts";
import { traceRace } from "./race.ts";
import type { Race } from "../ops/op.ts";
import { RACES } from "../ops/registry.ts";

/** Everything that may change which variant is the fastest. */
export interface TuningKey {
  /** The adapter as it names itself; with the driver's version where the driver puts it there. */
  readonly adapter: string;
  /** Name and version; empty where WebGPU does not tell. */
  readonly driver: string;
  /** As WebGPU gives it. */
  readonly vendor: string;
  /** Operating system and what WebGPU runs on, such as `linux vulkan`. */
  readonly backend: string;
  /** Limits, features and class: where the driver's version is not told, new ones often differ in these. */
  readonly abilities: string;
  /** Digest of the source of every kernel that a tuning run could choose. */
  readonly kernels: string;
}

/**
 * The key of a device's results.
 *
 * @param backend what WebGPU runs on, in words
 */
export async function tuningKey(
  device: Pick<Device, "adapter" | "target">,
  backend: string,
): Promise<TuningKey> {
  const { adapter: { name, driver, vendor }, target } = device;
  const { schedule, limits, features } = target;
  return {
    adapter: name,
    driver,
    vendor,
    backend,
    abilities: await digest(JSON.stringify([schedule, limits, features])),
    kernels: await kernelSetVersion(target),
  };
}

/** Digest of the classes, variants and WGSL of all races: it changes whenever an old result may be wrong. */
export function kernelSetVersion(
  target: Target,
  races: readonly Race[] = RACES,
): Promise<string> {
  const parts: string[] = [];
  for (const race of races) {
    const { op, problemClass, candidates } = traceRace(race, target).choice;
    parts.push(op, problemClass);
    for (const variant of candidates) {
      const forcedVariants = { [op]: variant };
      const { graph } = traceRace(race, { ...target, forcedVariants });
      parts.push(variant);
      for (const dispatch of graph.dispatches) {
        parts.push(kernelSource(dispatch, target), dispatch.workgroups.join());
      }
    }
  }
  return digest(parts.join("\n"));
}

/** Digest of a text, 16 hexadecimal digits. */
export async function digest(text: string): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return new Uint8Array(hash).toHex().slice(0, 16);
}
