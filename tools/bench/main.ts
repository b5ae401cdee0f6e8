/**
 * The benches (`./denoise bench`, `deno task bench`).
 *
 *     ./denoise bench                                         # ops and the bundled model
 *     ./denoise bench --ops linear:1x4096x4096:q4_k           # our ops at sizes of your own
 *     ./denoise bench --ops --all conv2d:64x64x128x128        # every variant that takes them
 *     ./denoise bench --against main                          # what got slower since a commit; exit status 1 if any
 *
 * Sizes are `OP:SIZExSIZE…[:FORMAT]`. `--json FILE` writes the run, `--save` appends it to the history. Figures are compared
 * with the newest ones of the history that were measured on the same device, and ratios with the bounds that the project
 * holds itself to.
 */

import { parseArgs } from "node:util";
import { parseCase } from "../../report/loaded_op.ts";
import { openDevice } from "../../runtime/mod.ts";
import { benchAgainst } from "./against.ts";
import { boundsTable, findBounds } from "./bounds.ts";
import {
  beginRun,
  comparisonTable,
  type Figures,
  latestFigures,
  readHistory,
  saveRun,
} from "./history.ts";
import { benchKernels, benchModels } from "./models.ts";
import { benchOps, DEFAULT_SPECS, opFigures, type OpsRun, opTable } from "./ops.ts";

const OPTIONS = {
  ops: { type: "boolean" },
  models: { type: "boolean" },
  against: { type: "string" },
  all: { type: "boolean" },
  rounds: { type: "string", default: "201" },
  json: { type: "string" },
  save: { type: "boolean" },
} as const;

const log = (line: string): void => console.error(line);

async function main(): Promise<number> {
  // On Windows the launcher cannot take its own word away.
  const args = Deno.args.slice(Deno.args[0] === "bench" ? 1 : 0);
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true });
  const { ops, models, against, all = false, json, save } = values;
  const specs = positionals.length > 0 ? positionals : DEFAULT_SPECS;
  specs.forEach(parseCase);
  const rounds = Number(values.rounds);
  if (!Number.isInteger(rounds) || rounds < 1) {
    throw new RangeError(
      `Cannot take ${values.rounds} turns: --rounds is an integer of at least 1`,
    );
  }
  const isNamed = ops || models || against !== undefined;
  const device = await openDevice();
  const start = await beginRun(device);
  log(`${device.adapter.name}, ${start.device.cores} cores, load ${start.load}`);
  let measured: OpsRun | undefined;
  let results: Figures = {};
  let slower: readonly string[] = [];
  if (ops || !isNamed) {
    measured = await benchOps(device, specs, all, log);
    for (const line of opTable(measured)) console.log(line);
    results = opFigures(measured.ops);
  }
  if (models || (!isNamed && positionals.length === 0)) {
    results = { ...results, ...await benchModels(log), ...await benchKernels(device, log) };
  }
  device.destroy();
  const earlier = latestFigures(readHistory(), start.device);
  // Ops were printed already, so only what was measured before is left to say of them.
  const news = Object.entries(results).filter(([name]) => !name.includes(":") || name in earlier);
  for (const line of comparisonTable(Object.fromEntries(news), earlier)) console.log(line);
  for (const line of boundsTable(findBounds(results))) console.log(line);
  if (against !== undefined) {
    const compared = await benchAgainst(against, specs, rounds);
    results = { ...results, ...compared.figures };
    slower = compared.slower;
  }
  for (const row of slower) console.log(`slower: ${row}`);
  const run = { ...start, results };
  if (json !== undefined) {
    const record = { ...run, ...measured, bounds: findBounds(results) };
    await Deno.writeTextFile(json, `${JSON.stringify(record, null, 2)}\n`);
  }
  if (save) await saveRun(run);
  return slower.length > 0 ? 1 : 0;
}

try {
  Deno.exit(await main());
} catch (error) {
  // An option, a size or an op that does not exist; anything else is a fault of ours and shows where.
  const isUsage = error instanceof RangeError || error instanceof TypeError && "code" in error;
  if (!isUsage) throw error;
  console.error(`denoise: ${error.message}`);
  Deno.exit(2);
}
