/** Our ops beside those of other libraries, as bars: one row per shape. */

import type { BenchRun } from "./history.ts";
import { formatRate } from "./op_result.ts";
import { TORCH_NAME } from "./peers/names.ts";
import { COMPARED_BY, OURSELVES } from "./record.ts";
import { round, text } from "./svg.ts";

const ROW = { height: 28, bar: 8, peerBar: 5 };
const HEAD = 40;
const LABEL_WIDTH = 168;
/** Room on the right for the ratio, and for the rate of torch. */
const RATIO_WIDTH = 70;
const TORCH_WIDTH = 60;
/** Room behind the longest bar for its rate. */
const VALUE_WIDTH = 34;

/** Everybody's rate at one shape. */
interface Compared {
  readonly spec: string;
  readonly own: number;
  readonly peers: ReadonlyMap<string, number>;
  readonly torch: number | undefined;
}

/** A drawing and the height that it takes. */
export interface Drawing {
  readonly svg: string;
  readonly height: number;
}

/**
 * Draws the newest comparison of a device.
 *
 * @param runs of one device, oldest first
 * @returns undefined where nobody was compared
 */
export function plotPeers(runs: readonly BenchRun[], width: number): Drawing | undefined {
  const run = runs.findLast((each) => comparedOps(each).length > 0);
  if (!run) return undefined;
  const rows = comparedOps(run);
  const names = [...new Set(rows.flatMap(({ peers }) => [...peers.keys()]))];
  const barWidth = width - LABEL_WIDTH - VALUE_WIDTH - RATIO_WIDTH - TORCH_WIDTH;
  const most = Math.max(...rows.flatMap(({ own, peers }) => [own, ...peers.values()]));
  const length = (rate: number) => round(Math.max(1, rate / most * barWidth));
  const bar = (kind: number, y: number, height: number, rate: number, name: string) =>
    `<rect class="bar${kind}" x="${LABEL_WIDTH}" y="${y}" width="${
      length(rate)
    }" height="${height}" rx="1"><title>${name}: ${formatRate(rate)} GFLOP/s</title></rect>`;
  const drawn = rows.map(({ spec, own, peers, torch }, index) => {
    const y = HEAD + index * ROW.height;
    const faster = Math.max(...peers.values());
    return [
      text("end", LABEL_WIDTH - 10, y + 13, spec.replace(":", " ").replaceAll("x", "×")),
      bar(0, y, ROW.bar, own, OURSELVES),
      ...names.map((name, i) =>
        peers.has(name)
          ? bar(i + 1, y + ROW.bar + 1 + i * (ROW.peerBar + 1), ROW.peerBar, peers.get(name)!, name)
          : ""
      ),
      text("strong", LABEL_WIDTH + length(own) + 5, y + ROW.bar, formatRate(own)),
      Number.isFinite(faster)
        ? text("strong end", width - TORCH_WIDTH, y + 13, `${(own / faster).toFixed(1)}×`)
        : "",
      torch === undefined ? "" : text("end", width, y + 13, formatRate(torch)),
    ].join("");
  });
  const header = [
    ...legend([OURSELVES, ...names]),
    text("end", width - TORCH_WIDTH, 14, "to the"),
    text("end", width - TORCH_WIDTH, 27, "faster peer"),
    ...rows.some(({ torch }) => torch !== undefined)
      ? [text("end", width, 14, "torch"), text("end", width, 27, "(CPU)")]
      : [],
  ];
  return { svg: [...header, ...drawn].join("\n"), height: HEAD + rows.length * ROW.height };
}

function legend(names: readonly string[]): string[] {
  let x = LABEL_WIDTH;
  const parts = names.map((name, i) => {
    const part = `<rect class="bar${i}" x="${x}" y="12" width="10" height="10" rx="2"/>` +
      text(i === 0 ? "strong" : "name", x + 15, 21, name);
    x += 34 + name.length * 6;
    return part;
  });
  return [text("end", LABEL_WIDTH - 10, 21, "GFLOP/s, longer is faster"), ...parts];
}

function comparedOps({ results }: BenchRun): Compared[] {
  const groups = new Map<string, Map<string, number>>();
  for (const [figure, { value }] of Object.entries(results)) {
    const [spec, name] = figure.split(COMPARED_BY);
    if (!name || !spec!.includes(":")) continue;
    const group = groups.get(spec!) ?? new Map<string, number>();
    groups.set(spec!, group.set(name, value));
  }
  return [...groups].flatMap(([spec, rates]) => {
    const own = rates.get(OURSELVES);
    if (own === undefined) return [];
    const torch = rates.get(TORCH_NAME);
    const peers = new Map([...rates].filter(([name]) => name !== OURSELVES && name !== TORCH_NAME));
    return [{ spec, own, peers, torch }];
  });
}
