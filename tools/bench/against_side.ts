/**
 * One side of a comparison of two commits (`against.ts`): times the ops and programs of the checkout that this file lies in.
 *
 * Its arguments are specs of ops. It writes the rows that it has as a line of JSON. Each line that it then reads is a row and a
 * number of calls, and is answered with the milliseconds of one.
 */

import { openModelFiles } from "../../models/checkpoints/open_model.ts";
import { WAN } from "../../models/families/wan/pipeline.ts";
import { openFamily } from "../../models/pipeline/diffusion_pipeline.ts";
import { parseCase } from "../../report/op_cases.ts";
import { type Device, type Executable, openDevice, runSequence } from "../../runtime/mod.ts";
import { prepareOwnOp } from "./own_op.ts";

const BUNDLED = new URL("../../models/bundled", import.meta.url).pathname;

/** Programs of a guided image of the bundled model, by the names of their rows. */
const PROGRAMS = { "bundled step": "denoise: pass 0", "bundled decode": "decode: decode first" };

/** What is timed. */
interface Row {
  /** Calls of one run. */
  readonly calls: number;
  /** Runs so often, until the device is done. */
  run(times: number): Promise<void>;
}

/** The lines of a stream. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const bytes of stream) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop()!;
    yield* lines;
  }
}

async function opRows(device: Device, specs: readonly string[]): Promise<[string, Row][]> {
  const rows: [string, Row][] = [];
  for (const spec of specs) {
    const op = await prepareOwnOp(device, parseCase(spec));
    rows.push([spec, { calls: op.copies, run: (times) => op.run(times) }]);
  }
  return rows;
}

async function programRows(device: Device): Promise<[string, Row][]> {
  const pipeline = await openFamily(WAN, await openModelFiles(BUNDLED));
  const { session, runner } = pipeline.trace(device.target, {
    ...{ task: "T2I", prompt: "a red circle", negativePrompt: "", width: 64, height: 64 },
    ...{ numFrames: 1, seed: 7, numInferenceSteps: 20, guidanceScale: 3.5 },
  });
  await runner.allocate(device, runner.plan({ budgetBytes: Infinity }));
  for (const tensor of session.tensors) {
    if (!tensor.isAllocated || tensor.dtype !== "f32") continue;
    const count = tensor.shape.reduce((product, size) => product * size, 1);
    tensor.write(Float32Array.from({ length: count }, (_, i) => Math.sin(1.3 * i)));
  }
  return Object.entries(PROGRAMS).map(([row, name]) => {
    const program = session.stages.flatMap(({ programs }) => programs.get(name) ?? [])[0]!;
    const executable: Executable = runner.executable(program);
    const run = { programs: [executable], stage: row };
    return [row, { calls: 1, run: (times) => runSequence(device, new Array(times).fill(run)) }];
  });
}

async function main(specs: readonly string[]): Promise<void> {
  const device = await openDevice();
  const rows = new Map([...await opRows(device, specs), ...await programRows(device)]);
  for (const { run } of rows.values()) await run(1);
  console.log(JSON.stringify([...rows.keys()]));
  for await (const line of linesOf(Deno.stdin.readable)) {
    const [name, wanted] = JSON.parse(line) as [string, number];
    const { calls, run } = rows.get(name)!;
    const times = Math.max(1, Math.round(wanted / calls));
    const start = performance.now();
    await run(times);
    console.log((performance.now() - start) / (times * calls));
  }
}

if (import.meta.main) await main(Deno.args);
