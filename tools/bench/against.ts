/** What got slower since a commit (`./denoise bench --against COMMIT`): its programs and ours take turns of milliseconds. */

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Readable, Writable } from "node:stream";
import { ms, percent } from "../../report/cells.ts";
import { type Figures, git, median } from "./history.ts";
import { DENO, ROOT } from "../root.ts";

const SIDE = join("tools", "bench", "against_side.ts");
/** Least time of a turn, in milliseconds. */
const TURN_MS = 100;
/** Turns of each row at least, and the time after which it has no more, in milliseconds. */
const FEW = 31;
const ROW_MS = 20_000;
/** How much slower a row may be: the same checkout twice differs by 1 %. */
const ALLOWED = 1.03;

interface Compared {
  readonly row: string;
  /** Time now over that before, as the median of the turns taken side by side: what else a machine does moves it least. */
  readonly ratio: number;
}

class Side {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: AsyncIterator<string>;

  constructor(folder: string, specs: readonly string[]) {
    this.#child = spawn(DENO, ["run", "-A", "--no-check", "--quiet", SIDE, ...specs], {
      cwd: folder,
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  /** The next line that it writes: the rows that it can time come first. */
  async next(): Promise<string> {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error("Cannot compare: one side ended; what it said stands above");
    return value;
  }

  /** Milliseconds of a call of a row, of so many. */
  async time(row: string, calls: number): Promise<number> {
    this.#child.stdin.write(`${JSON.stringify([row, calls])}\n`);
    return Number(await this.next());
  }

  async close(): Promise<void> {
    this.#child.stdin.end();
    if (this.#child.exitCode === null) await once(this.#child, "exit");
  }
}

/** Compares a row; each round begins with the other side. */
async function compare(sides: readonly Side[], row: string, rounds: number): Promise<Compared> {
  const calls = Math.ceil(TURN_MS / await sides[0]!.time(row, 1));
  const times: [number[], number[]] = [[], []];
  const end = performance.now() + ROW_MS;
  for (let round = 0; round < rounds && (round < FEW || performance.now() < end); round++) {
    const order = round % 2 === 0 ? [0, 1] as const : [1, 0] as const;
    for (const i of order) times[i].push(await sides[i]!.time(row, calls));
  }
  const [before, now] = times;
  const ratio = median(now.map((time, i) => time / before[i]!));
  const [was, is] = times.map((all) => ms(Math.min(...all)));
  console.log(`${row}: ${was} before, ${is} now, ${percent(ratio)}`);
  return { row, ratio };
}

async function compareAll(
  folders: readonly string[],
  specs: readonly string[],
  rounds: number,
): Promise<Compared[]> {
  const sides = folders.map((folder) => new Side(folder, specs));
  try {
    const [before, now] = await Promise.all(
      sides.map(async (side) => JSON.parse(await side.next()) as string[]),
    );
    const compared: Compared[] = [];
    for (const row of now!) {
      if (before!.includes(row)) compared.push(await compare(sides, row, rounds));
    }
    return compared;
  } finally {
    for (const side of sides) await side.close();
  }
}

/** Compares all rows that both sides have; `slower` are those that take more than 103 % of their time there. */
export async function benchAgainst(
  place: string,
  specs: readonly string[],
  rounds: number,
): Promise<{ figures: Figures; slower: readonly string[] }> {
  const isFolder = existsSync(place);
  const folder = isFolder ? place : await Deno.makeTempDir({ prefix: "denoise-against-" });
  try {
    if (
      !isFolder && await git("worktree", "add", "--detach", "--force", folder, place) === undefined
    ) {
      throw new RangeError(
        `Cannot compare with ${place}: it is no folder, and git knows no such commit`,
      );
    }
    const compared = await compareAll([folder, fileURLToPath(ROOT)], specs, rounds);
    const since = isFolder ? "before" : `at ${place}`;
    return {
      figures: Object.fromEntries(compared.map(({ row, ratio }) => [
        `${row}, of its time ${since}`,
        { value: 100 * ratio, unit: "%" },
      ])),
      slower: compared.filter(({ ratio }) => ratio > ALLOWED).map(({ row }) => row),
    };
  } finally {
    if (!isFolder) {
      await Deno.remove(folder, { recursive: true });
      await git("worktree", "prune");
    }
  }
}
