/**
 * One side of a comparison of two commits (`against.ts`): times the ops and programs of the checkout that this file lies in.
 *
 * Its arguments are specs of ops. It writes the rows that it has as a line of JSON. Each line that it then reads is a row and a
 * number of calls, and is answered with the milliseconds of one; ops are called as often as the stopwatch wants.
 */

import { createInterface } from "node:readline";
import process from "node:process";
import { LoadedOp, parseCase } from "../../report/loaded_op.ts";
import { openDevice, runSequence } from "../../runtime/mod.ts";
import { Stopwatch } from "../../runtime/program/stopwatch.ts";
import { loadPrograms } from "./bundled.ts";

/** Work of an op in one answer, in milliseconds. */
const LEAST_MS = 25;

async function main(specs: readonly string[]): Promise<void> {
  const device = await openDevice();
  const stopwatch = await Stopwatch.open(device);
  const rows = new Map<string, (calls: number) => Promise<number>>();
  for (const spec of specs) {
    const { program } = await new LoadedOp(device, parseCase(spec)).prepare();
    rows.set(spec, () => stopwatch.time(program, { leastMs: LEAST_MS, rounds: 1 }));
  }
  for (const [name, program] of Object.entries(await loadPrograms(device))) {
    const run = { programs: [program], stage: name };
    // What this side does between submits counts, too.
    rows.set(`bundled ${name}`, async (calls) => {
      const start = performance.now();
      await runSequence(device, new Array(calls).fill(run));
      return (performance.now() - start) / calls;
    });
  }
  for (const time of rows.values()) await time(1);
  console.log(JSON.stringify([...rows.keys()]));
  for await (const line of createInterface({ input: process.stdin })) {
    const [name, calls] = JSON.parse(line) as [string, number];
    console.log(await rows.get(name)!(calls));
  }
}

if (import.meta.main) await main(Deno.args);
