/** What a tuning run's results hold for: this adapter, as it is, and these kernels. */
import { readSystemText, RUNTIME } from "../../platform/mod.ts";
import type { Device } from "../device/device.ts";
import { kernelCode } from "../program/compile.ts";
import type { Target } from "../target.ts";
import { DAWN_VERSION } from "../device/backends/dawn_package.ts";
import { raceTarget, traceRace } from "./race.ts";
import type { Race } from "../ops/op.ts";
import { RACES } from "../ops/registry.ts";

/** Everything but the kernels that may change which variant is the fastest. */
export interface AdapterKey {
  /** The adapter as it names itself; with the driver's version where the driver puts it there. */
  readonly adapter: string;
  /** Name and version, as far as WebGPU or the system tells; else empty. */
  readonly driver: string;
  /** The vendor as WebGPU gives it. */
  readonly vendor: string;
  /** Operating system and what WebGPU runs on, such as `linux vulkan`. */
  readonly backend: string;
  /** Version of the WebGPU implementation: another compiles the same kernels otherwise. */
  readonly runtime: string;
  /** Limits, features and class: where the driver's version is not told, new ones often differ in these. */
  readonly abilities: string;
}

/** Everything that may change which variant is the fastest. */
export interface TuningKey extends AdapterKey {
  /** Version of the kernels, from {@linkcode kernelSetVersion}. */
  readonly kernels: string;
}

/** What the results of a device hold for, but for the kernels; `backend` is what WebGPU runs on, in words. */
export async function adapterKey(
  device: Pick<Device, "adapter" | "target">,
  backend: string,
): Promise<AdapterKey> {
  const { adapter: { name, driver, vendor, backend: implementation }, target } = device;
  const { schedule, limits, features, dialect } = target;
  return {
    adapter: name,
    driver: driver || systemDriver(),
    vendor,
    backend,
    runtime: implementation === "dawn" ? `dawn ${DAWN_VERSION}` : RUNTIME,
    abilities: await digest(JSON.stringify([schedule, limits, features, dialect])),
  };
}

/** The version of NVIDIA's driver on Linux, which Deno's WebGPU does not tell; empty elsewhere. */
function systemDriver(): string {
  const text = readSystemText("/proc/driver/nvidia/version") ?? "";
  return /Kernel Module\S*( for \S+)?\s+([\d.]+)/.exec(text)?.[2] ?? "";
}

/**
 * Digest of the classes, variants and WGSL of all races: it changes whenever an old result may be wrong. All of them are
 * traced for it, which takes half a second in a program that has just started.
 */
export function kernelSetVersion(
  target: Target,
  races: readonly Race[] = RACES,
): Promise<string> {
  const parts: string[] = [];
  const widest = raceTarget(target);
  for (const race of races) {
    const { op, problemClass, candidates } = traceRace(race, widest).choice;
    parts.push(op, problemClass);
    for (const variant of candidates) {
      const forcedVariants = { [op]: variant };
      const { graph } = traceRace(race, { ...widest, forcedVariants });
      parts.push(variant);
      for (const dispatch of graph.dispatches) {
        parts.push(kernelCode(dispatch, target).wgsl, dispatch.workgroups.join());
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
