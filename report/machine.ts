/** This machine, as reports name it, and the WebGPU implementations on it. */

import { findDawn } from "../runtime/device/backends/dawn_package.ts";
import type { GpuBackend } from "../runtime/mod.ts";
import type { Machine } from "./types.ts";

/** Both implementations where Dawn is installed. */
export function availableBackends(): GpuBackend[] {
  try {
    findDawn();
    return ["deno", "dawn"];
  } catch {
    return ["deno"];
  }
}

/** What figures depend on, without what tells whose machine it is. */
export async function readMachine(): Promise<Machine> {
  const { os, arch } = Deno.build;
  const nvidia = /Kernel Module.{0,80}?\s(\d+(?:\.\d+)+)\s/.exec(
    await textOf("/proc/driver/nvidia/version"),
  )?.[1];
  return {
    os: `${os} ${arch}, ${Deno.osRelease()}`,
    cpu: await cpuName(),
    cores: navigator.hardwareConcurrency,
    memory: Deno.systemMemoryInfo().total,
    runtime: `deno ${Deno.version.deno}`,
    ...(nvidia && { nvidia }),
  };
}

async function cpuName(): Promise<string> {
  if (Deno.build.os === "darwin") return await outputOf("sysctl", "-n", "machdep.cpu.brand_string");
  if (Deno.build.os === "windows") return Deno.env.get("PROCESSOR_IDENTIFIER") ?? "";
  return /^(?:model name|Model)\s*:\s*(.*)$/m.exec(await textOf("/proc/cpuinfo"))?.[1] ?? "";
}

async function textOf(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch {
    return "";
  }
}

async function outputOf(command: string, ...args: string[]): Promise<string> {
  try {
    const { stdout } = await new Deno.Command(command, { args, stderr: "null" }).output();
    return new TextDecoder().decode(stdout).trim();
  } catch {
    return "";
  }
}
