/**
 * Whether anything got slower since a commit: its ops and programs and ours, each in a process of its own, take turns of some
 * milliseconds, so that what else a machine does meets both.
 *
 *     deno run -A tools/bench/against.ts COMMIT|FOLDER [SPEC…]
 *
 * `--rounds N` is the number of turns of each row; of long ones {@linkcode FEW} or more end after {@linkcode ROW_MS}. What takes more than 103 % of its time before, by the median of turns side by
 * side, makes the exit status 1: the same checkout twice differs by 1 %. A commit is checked out into a folder that is removed;
 * where it has no `against_side.ts`, it gets ours. A folder is a checkout that stays. `--save` adds the medians to the history.
 */

import { join } from "node:path";
import { parseArgs } from "node:util";
import { HISTORY, historyLine } from "./history.ts";
import { currentCommit, describeDevice, ROOT } from "./machine.ts";
import { formatRate, formatShare } from "./op_result.ts";
import { linesOf } from "./against_side.ts";
import { DEFAULT_SPECS } from "./ops.ts";
import { best, median } from "../../report/statistics.ts";

const SIDE = join("tools", "bench", "against_side.ts");
/** Least time of a turn, in milliseconds. */
const TURN_MS = 25;
/** Turns of each row at least. */
const FEW = 31;
/** Time after which a row has no more than {@linkcode FEW}, in milliseconds. */
const ROW_MS = 20_000;
/** How much slower a row may be. */
const ALLOWED = 1.03;

/** A row after all its turns. */
interface Compared {
  readonly row: string;
  /** Least times of a call, in milliseconds. */
  readonly before: number;
  readonly now: number;
  /** Now over before, as the median of the turns taken side by side: what else a machine does moves it least. */
  readonly ratio: number;
}

/** The process of a side. */
class Side {
  readonly #child: Deno.ChildProcess;
  readonly #lines: AsyncGenerator<string>;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  /** Rows that the side can time. */
  rows: readonly string[] = [];

  constructor(folder: string, specs: readonly string[]) {
    this.#child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", "--quiet", SIDE, ...specs],
      ...{ cwd: folder, stdin: "piped", stdout: "piped" },
    }).spawn();
    this.#lines = linesOf(this.#child.stdout);
    this.#writer = this.#child.stdin.getWriter();
  }

  /** Waits until it has loaded its rows. */
  async ready(): Promise<void> {
    this.rows = JSON.parse(await this.#next());
  }

  /** Milliseconds of a call of a row, of so many. */
  async time(row: string, calls: number): Promise<number> {
    await this.#writer.write(new TextEncoder().encode(`${JSON.stringify([row, calls])}\n`));
    return Number(await this.#next());
  }

  /** Ends it. */
  async close(): Promise<void> {
    await this.#writer.close().catch(() => {});
    await this.#child.status;
  }

  async #next(): Promise<string> {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error("Cannot compare: one side ended; what it said stands above");
    return value;
  }
}

/** Compares a row; each round begins with the other side. */
async function compare(
  sides: readonly [Side, Side],
  row: string,
  rounds: number,
): Promise<Compared> {
  const calls = Math.ceil(TURN_MS / await sides[0].time(row, 1));
  const before: number[] = [];
  const now: number[] = [];
  const end = performance.now() + ROW_MS;
  for (let round = 0; round < rounds && (round < FEW || performance.now() < end); round++) {
    const order = round % 2 === 0 ? [0, 1] as const : [1, 0] as const;
    for (const i of order) [before, now][i]!.push(await sides[i].time(row, calls));
  }
  const ratio = median(now.map((time, i) => time / before[i]!));
  return { row, before: best(before), now: best(now), ratio };
}

async function git(...args: string[]): Promise<void> {
  const { success } = await new Deno.Command("git", { args, cwd: ROOT, stdout: "null" }).output();
  if (!success) throw new Error(`Cannot compare: git ${args.join(" ")} failed`);
}

/** Lets a process have the checkout of a commit, or one that is there. */
async function withCheckout<T>(
  place: string,
  use: (folder: string) => Promise<T>,
): Promise<T> {
  if (await exists(place)) return await use(place);
  const folder = await Deno.makeTempDir({ prefix: "denoise-against-" });
  await git("worktree", "add", "--detach", "--force", folder, place);
  try {
    if (!await exists(join(folder, SIDE))) {
      await Deno.copyFile(join(ROOT, SIDE), join(folder, SIDE));
    }
    return await use(folder);
  } finally {
    await git("worktree", "remove", "--force", folder);
  }
}

/** Compares all rows that both sides have, and prints each. */
async function compareAll(
  folders: readonly [string, string],
  specs: readonly string[],
  rounds: number,
): Promise<Compared[]> {
  const sides = folders.map((folder) => new Side(folder, specs)) as [Side, Side];
  try {
    for (const side of sides) await side.ready();
    const compared: Compared[] = [];
    for (const row of sides[1].rows.filter((row) => sides[0].rows.includes(row))) {
      const result = await compare(sides, row, rounds);
      compared.push(result);
      const times = [result.before, result.now].map((ms) => `${formatRate(ms)} ms`);
      console.log(`${row}: ${times.join(" before, ")} now, ${formatShare(result.ratio)}`);
    }
    return compared;
  } finally {
    for (const side of sides) await side.close();
  }
}

async function main(): Promise<number> {
  const { values, positionals: [before, ...specs] } = parseArgs({
    options: { rounds: { type: "string", default: "201" }, save: { type: "boolean" } },
    allowPositionals: true,
  });
  if (before === undefined) throw new RangeError("Cannot compare with nothing: name a commit");
  const wanted = specs.length > 0 ? specs : DEFAULT_SPECS;
  const date = new Date().toISOString();
  const load = Number((Deno.loadavg()[0] ?? 0).toFixed(2));
  const compared = await withCheckout(
    before,
    (folder) => compareAll([folder, ROOT], wanted, Number(values.rounds)),
  );
  const commit = await currentCommit();
  if (values.save) {
    const since = await exists(before) ? "before" : `at ${before}`;
    const results = Object.fromEntries(compared.map(({ row, ratio }) => [
      `${row}, of its time ${since}`,
      { value: 100 * ratio, unit: "%" } as const,
    ]));
    const run = { date, commit, device: await describeDevice(), load, results };
    await Deno.writeTextFile(HISTORY, historyLine(run), { append: true });
  }
  const slower = compared.filter(({ ratio }) => ratio > ALLOWED);
  for (const { row, ratio } of slower) console.log(`slower: ${row}, ${formatShare(ratio)}`);
  return slower.length > 0 ? 1 : 0;
}

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}

if (import.meta.main) Deno.exit(await main());
