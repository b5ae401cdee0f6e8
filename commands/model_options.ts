/** What flags of the model and its device are for the library. */

import type { Flags, FlagValues } from "../generation/flag.ts";
import { folderOf } from "../generation/open_model.ts";
import { CONTROLNET_PARTS, IP_ADAPTER_PARTS } from "../hub/model_index.ts";
import { measureAdapter, SOFTWARE_NOTE } from "../engine/mod.ts";
import { findNamed } from "../hub/obtain_named.ts";
import { USUAL_BYTES } from "../hub/precision.ts";
import { resolveModel } from "../hub/resolve.ts";
import type { DeviceOptions, ModelParts, OffloadableComponent } from "../mod.ts";
import { UsageError } from "./failure.ts";
import { flagOf } from "./flag_command.ts";
import { DEVICE_FLAGS, type DeviceFlags, MEMORY_FLAGS, PART_FLAGS, SERVE_FLAGS } from "./flags.ts";

/** The values of flags of a table, without those that have none. */
export function pick<Values extends object, Table extends Flags>(
  flags: Values,
  table: Table,
): Partial<Pick<Values, keyof Values & keyof Table>> {
  const known = Object.entries(flags).filter(([name, value]) =>
    name in table && value !== undefined
  );
  return Object.fromEntries(known) as Partial<Values>;
}

type PartFlags = Partial<FlagValues<typeof PART_FLAGS>>;

/** Parts by their names; a flag that is repeated names a part each time. */
export function partsOf(flags: PartFlags): ModelParts {
  const { controlnet = [], ipAdapter = [], ...parts } = pick(flags, PART_FLAGS);
  return {
    ...parts,
    ...severalOf("ControlNets", controlnet, CONTROLNET_PARTS),
    ...severalOf("IP-Adapters", ipAdapter, IP_ADAPTER_PARTS),
  };
}

function severalOf(
  words: string,
  paths: readonly string[],
  parts: readonly (keyof ModelParts)[],
): ModelParts {
  if (paths.length <= parts.length) {
    return Object.fromEntries(paths.map((path, i) => [parts[i]!, path]));
  }
  throw new UsageError(
    `Cannot load ${paths.length} ${words}: a model takes ${parts.length}; omit others`,
  );
}

/** Flags that the library takes as they are. */
const SAME = {
  ...DEVICE_FLAGS,
  maxVramBytes: MEMORY_FLAGS.maxVramBytes,
  keepAliveMs: SERVE_FLAGS.keepAliveMs,
};

export function deviceOptions(flags: DeviceFlags): DeviceOptions {
  const offload: OffloadableComponent[] = [];
  if (flags.textEncoderCpuOffload) offload.push("textEncoder");
  if (flags.vaeCpuOffload) offload.push("vae");
  const { enableCfgParallel, ulyssesDegree = 1, ringDegree = 1, splitLayers = 1 } = flags;
  const parallel = {
    ...(enableCfgParallel && { guidance: true }),
    ...(ulyssesDegree > 1 && { ulysses: ulyssesDegree }),
    ...(ringDegree > 1 && { ring: ringDegree }),
    ...(splitLayers > 1 && { layers: splitLayers }),
  };
  return {
    ...pick(flags, SAME),
    tuning: flags.tune === false ? "cached" : "auto",
    offload,
    pinCpuMemory: flags.pinCpuMemory === true,
    ...(Object.keys(parallel).length > 0 ? { parallel } : {}),
  };
}

/** Flags of the model and its device that were given, which a server has decided for itself. */
export function flagsOfModels(flags: PartFlags & DeviceFlags): string[] {
  const given: Readonly<Record<string, unknown>> = { ...flags };
  return Object.entries<Flags[string]>({ ...PART_FLAGS, ...DEVICE_FLAGS, ...MEMORY_FLAGS })
    .filter(([name, { default: own }]) => given[name] !== undefined && given[name] !== own)
    .map(([name, flag]) => flagOf(name, flag));
}

/** Bytes that the GPU can give, or what is usual where none can be asked; a driver that computes on the CPU is told of. */
export async function measureOrAssume(
  wantedBytes: number,
  onNote: (line: string) => void,
): Promise<number> {
  try {
    const { bytes, isSoftware } = await measureAdapter({}, wantedBytes);
    if (isSoftware) onNote(SOFTWARE_NOTE);
    return bytes;
  } catch (error) {
    const { message } = error as Error;
    onNote(`No GPU could be asked for its memory (${message}); 8 GB are assumed`);
    return USUAL_BYTES;
  }
}

/** Finds a model by a path, a hub id or a name; nothing is fetched. */
export async function localModel(input: string): Promise<string> {
  const named = await findNamed(input);
  if (!named) return await resolveModel(folderOf(input));
  return await resolveModel("own" in named ? named.own.model : named.entry.repository);
}
