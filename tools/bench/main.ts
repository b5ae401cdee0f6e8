/**
 * The benches (`./denoise bench`, `deno task bench`).
 *
 * Groups: --ops, --kernels, --models, --memory, --server, --first-picture; all of them when none is
 * named. --peers compares our ops with those of other libraries, which it fetches the first time
 * (150 MB), so it runs only when it is asked for. `--json FILE` writes the run, `--save` appends it
 * to the history and draws that anew, `--pictures N` is the length of the memory series. Figures are
 * compared with the newest ones of the history that were measured on the same device.
 */

import { parseArgs } from "node:util";
import { openDevice } from "../../runtime/mod.ts";
import type { Figures } from "./figures.ts";
import { benchFirstPicture } from "./first_picture.ts";
import {
  type BenchRun,
  comparisonTable,
  HISTORY,
  historyLine,
  latestFigures,
  readHistory,
} from "./history.ts";
import { currentCommit, describeDevice } from "./machine.ts";
import { benchMemory } from "./memory.ts";
import { benchModels } from "./models.ts";
import { benchOps } from "./ops.ts";
import { comparePeers } from "./peers/compare.ts";
import { type PeerRun, peerTable } from "./peers/results.ts";
import { writePicture } from "./plot.ts";
import { benchKernels } from "./profile.ts";
import { benchRecord, peerFigures } from "./record.ts";
import { benchServer } from "./server.ts";

/** Ops whose history is kept: the bundled model's own sizes, and one that fills the machine. */
const OPS = ["linear:32x640x160", "linear:1024x1024x1024", "attention:16x5x32", "softmax:1280x256"];

const OPTIONS = {
  ops: { type: "boolean" },
  kernels: { type: "boolean" },
  models: { type: "boolean" },
  memory: { type: "boolean" },
  server: { type: "boolean" },
  "first-picture": { type: "boolean" },
  peers: { type: "boolean" },
  pictures: { type: "string", default: "100" },
  json: { type: "string" },
  save: { type: "boolean" },
} as const;

const { values } = readArguments();

const log = (line: string): void => console.error(line);

const GROUPS: Readonly<Record<string, () => Promise<Figures>>> = {
  ops: timeOps,
  kernels: () => benchKernels(log),
  models: () => benchModels(log),
  memory: () => benchMemory(log, readCount(values.pictures)),
  server: () => benchServer(log),
  "first-picture": () => benchFirstPicture(log),
  peers: timePeers,
};

/** What is only measured by name. */
const ON_DEMAND = ["peers"];

let comparison: PeerRun | undefined;

/** The command line; what is wrong with it is said in one sentence. */
function readArguments() {
  try {
    return parseArgs({ options: OPTIONS });
  } catch (error) {
    console.error(`denoise: ${error instanceof Error ? error.message : error}`);
    console.error(`The options are ${Object.keys(OPTIONS).map((name) => `--${name}`).join(" ")}`);
    Deno.exit(2);
  }
}

async function timeOps(): Promise<Figures> {
  log(`ops: ${OPS.join(" ")}`);
  const device = await openDevice();
  try {
    const timings = await benchOps(device, OPS);
    return Object.fromEntries(
      timings.map(({ spec, gigaflops }) => [spec, { value: gigaflops, unit: "GFLOP/s" } as const]),
    );
  } finally {
    device.destroy();
  }
}

async function timePeers(): Promise<Figures> {
  comparison = await comparePeers();
  for (const line of peerTable(comparison)) console.log(line);
  return peerFigures(comparison);
}

function readCount(text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count >= 10) return count;
  throw new RangeError(`Cannot make a series of ${text} pictures: it must be 10 or more`);
}

async function main(): Promise<void> {
  const names = Object.keys(GROUPS);
  const asked = names.filter((name) => (values as Record<string, unknown>)[name] === true);
  const device = await describeDevice();
  const before = readHistory();
  const start = {
    date: new Date().toISOString(),
    commit: await currentCommit(),
    device,
    load: Number((Deno.loadavg()[0] ?? 0).toFixed(2)),
  };
  log(`${device.adapter}, ${device.cores} cores, load ${start.load}`);
  const figures: Record<string, Figures> = {};
  for (const name of asked.length > 0 ? asked : names.filter((each) => !ON_DEMAND.includes(each))) {
    figures[name] = await GROUPS[name]!();
  }
  const results: Figures = Object.assign({}, ...Object.values(figures));
  const run: BenchRun = { ...start, results };
  for (const line of comparisonTable(results, latestFigures(before, device))) console.log(line);
  if (values.json !== undefined) {
    const record = benchRecord(run, comparison, figures["models"] ?? {});
    await Deno.writeTextFile(values.json, `${JSON.stringify(record, null, 2)}\n`);
  }
  if (values.save) {
    await Deno.mkdir(new URL("./", HISTORY), { recursive: true });
    await Deno.writeTextFile(HISTORY, historyLine(run), { append: true });
    writePicture();
  }
}

await main();
