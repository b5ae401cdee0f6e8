/**
 * The process that compares: ours and the peers, on the same adapter. `compare.ts` starts it, see `packages.ts` for
 * the reason; it takes specs as arguments and writes a {@linkcode PeerRun} to standard output.
 */

import { DEFAULT_SPECS, parseCase } from "./cases.ts";
import { highest, measureCeilings } from "../../../report/ceilings.ts";
import type { Contender } from "./contender.ts";
import { openJax } from "./jax.ts";
import { compareOp, MEASURE_OPTIONS } from "./measure.ts";
import { openOnnxRuntime } from "./onnxruntime.ts";
import { openOurs } from "./ours.ts";
import { JAX, ONNX_RUNTIME } from "./packages.ts";
import { type ComparedOp, comparedResult, type PeerRun } from "./results.ts";
import { TORCH_NAME } from "./names.ts";
import { openTorch } from "./torch.ts";

const OTHERS: Readonly<Record<string, () => Promise<Contender>>> = {
  [JAX.name]: openJax,
  [ONNX_RUNTIME.name]: openOnnxRuntime,
  [TORCH_NAME]: openTorch,
};

/** Time of all ops together, in milliseconds; each takes an equal part of what is left, and one round at least. */
const TOTAL_MS = 120_000;

async function comparePeers(specs: readonly string[]): Promise<PeerRun> {
  const cases = specs.map(parseCase);
  const ours = await openOurs();
  const contenders: Contender[] = [ours];
  const leftOut: Record<string, string> = {};
  for (const [name, open] of Object.entries(OTHERS)) {
    try {
      contenders.push(await open());
    } catch (error) {
      leftOut[name] = error instanceof Error ? error.message : String(error);
    }
  }
  const before = await measureCeilings(ours.device);
  const measured: ComparedOp[] = [];
  const start = performance.now();
  for (const [i, op] of cases.entries()) {
    console.error(`peers: ${op.op} ${op.shape}`);
    let kernels: readonly string[] = [];
    const own: Contender = {
      ...ours,
      async prepare(...given) {
        const prepared = await ours.prepare(...given);
        kernels = prepared.kernels;
        return prepared;
      },
    };
    const part = (TOTAL_MS - (performance.now() - start)) / (cases.length - i);
    const limitMs = Math.min(MEASURE_OPTIONS.limitMs, part);
    const options = { ...MEASURE_OPTIONS, limitMs };
    const measurements = await compareOp([own, ...contenders.slice(1)], op, options);
    measured.push({ op, deviceClass: ours.device.target.schedule, kernels, measurements });
  }
  const ceiling = highest(before, await measureCeilings(ours.device));
  for (const contender of contenders) await contender.close();
  return {
    ceiling,
    ops: measured.map((each) => comparedResult(each, ceiling, [TORCH_NAME])),
    left_out: leftOut,
  };
}

const run = await comparePeers(Deno.args.length > 0 ? Deno.args : DEFAULT_SPECS);
await Deno.stdout.write(new TextEncoder().encode(JSON.stringify(run)));
// ONNX Runtime's threads would keep it alive.
Deno.exit(0);
