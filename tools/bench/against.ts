/**
 * Whether anything got slower since a commit: its ops and programs and ours, each in a process of its own, take turns of some
 * milliseconds, so that what else a machine does meets both.
 *
 *     deno run -A tools/bench/against.ts COMMIT|FOLDER [SPEC…]
 *
 * `--rounds N` is the number of turns of each row. A ratio above 1 is slower than before; what is slower by more than 3 % by
 * its best turns and by most of those side by side, by the clock and by processors, makes the exit status 1. A commit is checked out into a folder that is
 * removed; where it has no `against_side.ts`, it gets ours. A folder is a checkout that stays as it is.
 */

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { formatRate } from "./op_result.ts";
import { linesOf } from "./against_side.ts";
import { DEFAULT_SPECS } from "./ops.ts";
import { best, median } from "../../report/statistics.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const SIDE = join("tools", "bench", "against_side.ts");
/** Least time of a turn, in milliseconds. */
const TURN_MS = 25;
/** How much slower a row may be. */
const ALLOWED = 1.03;

/** Milliseconds of a call. */
interface CallTime {
  /** On the clock. */
  readonly wall: number;
  /** Of all processors together: what else runs on them counts less. */
  readonly cpu: number;
}

/** A row by one of the clocks, after all its turns. */
interface Comparison {
  /** Least times, in milliseconds of a call. */
  readonly before: number;
  readonly now: number;
  /** Now over before, by the least times. */
  readonly ratio: number;
  /** The same, as the median of the turns taken side by side. */
  readonly medianRatio: number;
}

/** A row by both clocks. */
type Compared = { readonly row: string } & Readonly<Record<keyof CallTime, Comparison>>;

/** The process of a side. */
class Side {
  readonly #child: Deno.ChildProcess;
  readonly #lines: AsyncGenerator<string>;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  /** What it can time. */
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

  /** What a call of a row takes, of so many. */
  async time(row: string, calls: number): Promise<CallTime> {
    await this.#writer.write(new TextEncoder().encode(`${JSON.stringify([row, calls])}\n`));
    const [wall, cpu] = JSON.parse(await this.#next()) as [number, number];
    return { wall, cpu };
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
  const calls = Math.ceil(TURN_MS / (await sides[0].time(row, 1)).wall);
  const turns: { before: CallTime; now: CallTime }[] = [];
  for (let round = 0; round < rounds; round++) {
    const [first, second] = round % 2 === 0 ? sides : sides.toReversed();
    const times = [await first!.time(row, calls), await second!.time(row, calls)] as const;
    const [before, now] = round % 2 === 0 ? times : [times[1], times[0]];
    turns.push({ before, now });
  }
  const of = (clock: keyof CallTime) => {
    const least = [turns.map((t) => t.before[clock]), turns.map((t) => t.now[clock])].map(best);
    return {
      before: least[0]!,
      now: least[1]!,
      ratio: least[1]! / least[0]!,
      medianRatio: median(turns.map(({ before, now }) => now[clock] / before[clock])),
    };
  };
  return { row, wall: of("wall"), cpu: of("cpu") };
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
    console.log(
      "row; by the clock, then by processors: ms before, now, ratio, median of the turns' ratios",
    );
    const compared: Compared[] = [];
    for (const row of sides[1].rows.filter((row) => sides[0].rows.includes(row))) {
      const result = await compare(sides, row, rounds);
      compared.push(result);
      const figures = [result.wall, result.cpu].flatMap(({ before, now, ratio, medianRatio }) => [
        ...[before, now].map(formatRate),
        ...[ratio, medianRatio].map((each) => each.toFixed(3)),
      ]);
      console.log([row, ...figures].join("  "));
    }
    return compared;
  } finally {
    for (const side of sides) await side.close();
  }
}

async function main(): Promise<number> {
  const { values, positionals: [before, ...specs] } = parseArgs({
    options: { rounds: { type: "string", default: "9" } },
    allowPositionals: true,
  });
  if (before === undefined) throw new RangeError("Cannot compare with nothing: name a commit");
  const wanted = specs.length > 0 ? specs : DEFAULT_SPECS;
  const compared = await withCheckout(
    before,
    (folder) => compareAll([folder, ROOT], wanted, Number(values.rounds)),
  );
  const slower = compared.filter(({ wall, cpu }) =>
    [wall, cpu].flatMap(({ ratio, medianRatio }) => [ratio, medianRatio])
      .every((ratio) => ratio > ALLOWED)
  );
  for (const { row, wall } of slower) console.log(`slower: ${row}, ${wall.ratio.toFixed(3)}`);
  return slower.length > 0 ? 1 : 0;
}

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}

if (import.meta.main) Deno.exit(await main());
