/**
 * The benches (`./denoise bench`, `deno task bench`).
 *
 *     ./denoise bench                                         # ops, kernels, models: 90 s on two cores
 *     ./denoise bench --ops linear:1x4096x4096:q4_k           # our ops at sizes of your own
 *     ./denoise bench --ops --all conv2d:64x64x128x128        # every variant that takes them
 *     ./denoise bench --peers matmul:1024x1024x1024           # beside other libraries, on the same adapter
 *
 * Groups: --ops, --kernels, --models, --loras, --image-steps, --memory, --server, --first-image, --peers; the
 * first three when none is named, --ops when sizes are given. --image-steps wants 14 GB on a graphics card. --peers
 * fetches the other libraries the first time (150 MB). Sizes are `OP:SIZExSIZE…[:FORMAT]`, see `cases.ts`.
 * `--json FILE` writes the run, `--save` appends it to the history and draws that anew, `--images N` is the length
 * of the memory series. Figures are compared with the newest ones of the history that were measured on the same
 * device, and ratios with the bounds that the project holds itself to.
 */

import { parseArgs } from "node:util";
import { benchLoras } from "./loras.ts";
import type { Ceilings } from "../../report/ceilings.ts";
import type { Figures } from "./figures.ts";
import { findGates, gateTable } from "./gates.ts";
import { benchFirstImage } from "./first_image.ts";
import {
  type BenchRun,
  comparisonTable,
  HISTORY,
  historyLine,
  latestFigures,
  readHistory,
} from "./history.ts";
import { benchImageSteps } from "./image_steps.ts";
import { currentCommit, describeDevice } from "./machine.ts";
import { benchMemory } from "./memory.ts";
import { benchModels } from "./models.ts";
import { benchOps } from "./ops.ts";
import { comparePeers } from "./peers/compare.ts";
import { type OpResult, opTable } from "./op_result.ts";
import { peerTable } from "./peers/results.ts";
import { benchKernels } from "./profile.ts";
import { benchRecord, opFigures, peerFigures } from "./record.ts";
import { benchPolling } from "./polling.ts";
import { benchServer } from "./server.ts";

const OPTIONS = {
  ops: { type: "boolean" },
  kernels: { type: "boolean" },
  models: { type: "boolean" },
  loras: { type: "boolean" },
  "image-steps": { type: "boolean" },
  memory: { type: "boolean" },
  server: { type: "boolean" },
  "first-image": { type: "boolean" },
  peers: { type: "boolean" },
  all: { type: "boolean" },
  images: { type: "string", default: "100" },
  json: { type: "string" },
  save: { type: "boolean" },
} as const;

const { values, positionals: specs } = readArguments();

const log = (line: string): void => console.error(line);

const GROUPS: Readonly<Record<string, () => Promise<Figures>>> = {
  ops: timeOps,
  kernels: () => benchKernels(log),
  models: () => benchModels(log),
  loras: () => benchLoras(log),
  "image-steps": () => benchImageSteps(log),
  memory: () => benchMemory(log, readCount(values.images)),
  server: async () => ({ ...await benchServer(log), ...await benchPolling(log) }),
  "first-image": () => benchFirstImage(log),
  peers: timePeers,
};

/** What is measured when nothing is named. */
const DEFAULT_GROUPS = specs.length > 0 ? ["ops"] : ["ops", "kernels", "models"];

/** What the groups measured of ops, and the ceiling that they found last. */
const opResults: OpResult[] = [];
let ceiling: Ceilings | undefined;
/** Ops of one group: only what was measured side by side makes a ratio. */
let gatedOps: readonly OpResult[] = [];

/** The command line; what is wrong with it is said in one sentence. */
function readArguments() {
  try {
    return parseArgs({ options: OPTIONS, allowPositionals: true });
  } catch (error) {
    console.error(`denoise: ${error instanceof Error ? error.message : error}`);
    console.error(`The options are ${Object.keys(OPTIONS).map((name) => `--${name}`).join(" ")}`);
    Deno.exit(2);
  }
}

async function timeOps(): Promise<Figures> {
  const run = await benchOps(specs, log, { allVariants: values.all ?? false });
  for (const line of opTable(run.ops, run.ceiling)) console.log(line);
  opResults.push(...run.ops);
  gatedOps = run.ops;
  ceiling = run.ceiling;
  return opFigures(run.ops);
}

async function timePeers(): Promise<Figures> {
  const run = await comparePeers(specs);
  for (const line of peerTable(run)) console.log(line);
  opResults.push(...run.ops);
  if (gatedOps.length === 0) gatedOps = run.ops;
  ceiling = run.ceiling;
  return peerFigures(run.ops);
}

function readCount(text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count >= 10) return count;
  throw new RangeError(`Cannot make a series of ${text} images: it must be 10 or more`);
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
  for (const name of asked.length > 0 ? asked : DEFAULT_GROUPS) {
    figures[name] = await GROUPS[name]!();
  }
  const results: Figures = Object.assign({}, ...Object.values(figures));
  const run: BenchRun = { ...start, results };
  const earlier = latestFigures(before, device);
  // Tables of ops were printed already, so that of them only what can be compared is left to say.
  const news = Object.entries(results).filter(([name]) => !name.includes(":") || name in earlier);
  for (const line of comparisonTable(Object.fromEntries(news), earlier)) console.log(line);
  for (const line of gateTable(findGates(gatedOps, results))) console.log(line);
  if (values.json !== undefined) {
    const models = { ...figures["models"], ...figures["kernels"] };
    const record = benchRecord(run, { ops: opResults, ceiling, models });
    await Deno.writeTextFile(values.json, `${JSON.stringify(record, null, 2)}\n`);
  }
  if (values.save) {
    await Deno.mkdir(new URL("./", HISTORY), { recursive: true });
    await Deno.writeTextFile(HISTORY, historyLine(run), { append: true });
  }
}

try {
  await main();
} catch (error) {
  // A size or an op that does not exist; anything else is a fault of ours and shows where.
  if (!(error instanceof RangeError)) throw error;
  console.error(`denoise: ${error.message}`);
  Deno.exit(2);
}
