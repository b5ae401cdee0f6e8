/** Where the time of a request goes on a card, as a model: no clock ran. */
import type { Dispatch } from "../../runtime/mod.ts";
import { BASELINE_TARGET, type Target } from "../../runtime/target.ts";
import { alignColumns } from "../bench/history.ts";
import { modelPhases } from "./models.ts";

/** A card: its peak and its memory as its maker gives them, and the share of the peak that is left to each kind of kernel by issue slots. */
interface Card {
  /** f32, a second; of RDNA 3 with both halves of a wave at once. */
  readonly flops: number;
  /** Bytes a second. */
  readonly bandwidth: number;
  readonly bounds: Readonly<Record<string, number>>;
}

/** The bounds are those of whole loops, inner and outer turns together (`--asm`). */
export const CARDS: Readonly<Record<string, Card>> = {
  "RX 7900 XTX": {
    flops: 61.4e12,
    bandwidth: 960e9,
    bounds: { gemm: 0.85, attention: 0.8, conv: 0.82 },
  },
  "RX 6800 XT": {
    flops: 20.7e12,
    bandwidth: 512e9,
    bounds: { gemm: 0.93, attention: 0.87, conv: 0.89 },
  },
};

/** RDNA through Vulkan. */
const TARGET: Target = {
  ...BASELINE_TARGET,
  limits: {
    maxBindingBytes: 2 ** 31 - 256,
    maxBufferBytes: 2 ** 31 - 1,
    maxStorageBuffers: 64,
    maxWorkgroupInvocations: 1024,
    maxWorkgroupMemoryBytes: 2 ** 16,
    maxWorkgroupsPerDimension: 2 ** 16 - 1,
  },
  features: {
    ...BASELINE_TARGET.features,
    f16: true,
    subgroups: true,
    subgroupMinSize: 32,
    subgroupMaxSize: 64,
  },
};

/** Bound of kernels that wait for memory anyway. */
const OTHER_BOUND = 0.5;
/** Seconds between two dispatches, about. */
const LAUNCH = 3e-6;
/** Kinds of kernels by the folder of their file; all others are the rest. */
const KINDS: Readonly<Record<string, string>> = {
  gemm: "products",
  attention: "attention",
  conv: "convolution",
  norm: "norms",
};

/** Seconds of a dispatch, and whether memory decides. */
export function timeOf(
  { kernel, flops, bytes }: Pick<Dispatch, "flops" | "bytes"> & { kernel: { name: string } },
  card: Card,
): { seconds: number; isMemory: boolean } {
  const bound = card.bounds[kernel.name.split("/")[0]!] ?? OTHER_BOUND;
  const computing = flops / (card.flops * bound);
  const moving = bytes / card.bandwidth;
  return { seconds: Math.max(computing, moving) + LAUNCH, isMemory: moving > computing };
}

/** A row for each model, phase and card: modelled milliseconds, and the shares of each kind of kernel and of waits for memory. */
export async function stepsTable(): Promise<string> {
  const kinds = [...Object.values(KINDS), "rest", "memory"];
  const rows = [["ms", ...kinds, "on"]];
  for (const [name, dispatches] of await modelPhases(TARGET)) {
    for (const [cardName, card] of Object.entries(CARDS)) {
      const seconds = new Map<string, number>();
      const add = (kind: string, more: number) =>
        seconds.set(kind, (seconds.get(kind) ?? 0) + more);
      let total = 0;
      for (const dispatch of dispatches) {
        const time = timeOf(dispatch, card);
        total += time.seconds;
        add(KINDS[dispatch.kernel.name.split("/")[0]!] ?? "rest", time.seconds);
        if (time.isMemory) add("memory", time.seconds);
      }
      const shares = kinds.map((kind) =>
        `${(100 * (seconds.get(kind) ?? 0) / total).toFixed(1)} %`
      );
      rows.push([(1000 * total).toFixed(0), ...shares, `${cardName}: ${name}`]);
    }
  }
  return alignColumns(rows, [...kinds.keys(), kinds.length]).join("\n");
}
