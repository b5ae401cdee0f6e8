/** Low-rank products added to weights by the device, which has both the weights and the arithmetic. */
import type { Device } from "../device/device.ts";
import { OutOfMemoryError } from "../errors.ts";
import { instantiate } from "../program/executable.ts";
import { Graph } from "../graph/graph.ts";
import { mergeLowRank } from "../ops/merge/mod.ts";
import { planMemory } from "../program/plan.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import type { ScaledProduct } from "./adaptation.ts";
import { LowRankFactors } from "./low_rank_factors.ts";

/** Bytes of factors that are on the device at a time, beyond those of one weight. */
const FACTOR_BYTES = 128 * 1024 * 1024;

/** Products that are added to rows of one weight. */
export interface DeviceMerge {
  /** The weight on the device, with the elements of the file. */
  readonly tensor: DeviceTensor;
  /** First row of the weight seen as a matrix; the rows of the products count from there. */
  readonly firstRow: number;
  readonly rows: number;
  readonly columns: number;
  /** See `LowRankPlace`. */
  readonly taps: number;
  readonly products: readonly ScaledProduct[];
}

export async function mergeOnDevice(
  merges: readonly DeviceMerge[],
  device: Device,
): Promise<ReadonlySet<DeviceTensor>> {
  const failed = new Set<DeviceTensor>();
  if (merges.length === 0) return failed;
  const flags = new DeviceTensor("merge flags", [merges.length], "u32");
  try {
    flags.allocate(device);
    for (const group of groupsOf(merges)) await mergeGroup(group, flags, device);
    const found = await flags.read();
    merges.forEach(({ tensor }, i) => found[i] !== 0 && failed.add(tensor));
  } catch (error) {
    if (!(error instanceof OutOfMemoryError)) throw error;
    for (const { tensor } of merges) failed.add(tensor);
  } finally {
    flags.destroy();
  }
  return failed;
}

interface Numbered extends DeviceMerge {
  readonly factors: LowRankFactors;
  readonly flag: number;
}

/** Cuts the list so that the factors of a part fit the bound. */
function* groupsOf(merges: readonly DeviceMerge[]): Generator<Numbered[]> {
  let group: Numbered[] = [];
  let bytes = 0;
  for (const [flag, merge] of merges.entries()) {
    const { tensor, rows: n, columns: k, taps, products } = merge;
    const factors = new LowRankFactors({ name: tensor.name, n, k, taps }, products);
    if (group.length > 0 && bytes + factors.byteLength > FACTOR_BYTES) {
      yield group;
      group = [];
      bytes = 0;
    }
    group.push({ ...merge, factors, flag });
    bytes += factors.byteLength;
  }
  if (group.length > 0) yield group;
}

async function mergeGroup(
  group: readonly Numbered[],
  flags: DeviceTensor,
  device: Device,
): Promise<void> {
  const graph = new Graph("merge", device.target);
  for (const { factors, ...merge } of group) {
    mergeLowRank(graph, { ...merge, weight: merge.tensor, ...factors.tensors, flags });
  }
  const scratch = new ArrayBuffer(Math.max(...group.map(({ factors }) => factors.scratchBytes)));
  try {
    await device.guarded(() => {
      for (const { factors, products } of group) {
        factors.upload(device, scratch);
        factors.writeScales(products.map(({ scale }) => scale));
      }
    });
    using programs = await instantiate(planMemory({ merge: graph }), device);
    programs.get("merge").submit();
    // What is freed below may be in use until then.
    await device.wait();
  } finally {
    for (const { factors } of group) factors.destroy();
  }
}
