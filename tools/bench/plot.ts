/**
 * The history as a image, one block per device: our ops beside other libraries', then small panels of one figure
 * each, run by run.
 *
 *     deno run -A tools/bench/plot.ts     # writes bench/history.svg
 */

import { formatFigure, TARGETS, type Unit } from "./figures.ts";
import { type BenchRun, deviceKey, readHistory } from "./history.ts";
import { type Drawing, plotPeers } from "./plot_peers.ts";
import { round, STYLE, text } from "./svg.ts";

/** The figures worth a panel: name in the history, and what stands above the panel. */
export const PANELS: readonly { readonly name: string; readonly title: string }[] = [
  { name: "image 64x64 median", title: "64×64, 20 steps" },
  { name: "image 96x96 median", title: "96×96, 20 steps" },
  { name: "video 64x64, 9 frames median", title: "64×64, 9 frames" },
  { name: "load median", title: "Load" },
  { name: "/health p99 while generating", title: "/health p99 at work" },
  { name: "first image", title: "Clone to first image" },
];

const COLUMNS = 3;
const PANEL = { width: 216, height: 92, gap: 16 };
/** The drawing within a panel; the title and the newest value stand above it. */
const PLOT = { top: 44, left: 4, right: 4, bottom: 8 };
const HEADING = 26;
const MARGIN = 16;

/** One value of a figure, and when it was measured. */
interface Point {
  readonly date: string;
  readonly value: number;
  readonly unit: Unit;
}

/**
 * Draws a history.
 *
 * @param runs oldest first
 * @returns an SVG document that suits light and dark pages
 */
export function plotHistory(runs: readonly BenchRun[]): string {
  const devices = Map.groupBy(runs, ({ device }) => deviceKey(device));
  const width = 2 * MARGIN + COLUMNS * PANEL.width + (COLUMNS - 1) * PANEL.gap;
  let height = MARGIN;
  const blocks = [...devices].map(([device, own]) => {
    const { svg, height: used } = block(device, own, width - 2 * MARGIN);
    const placed = `<g transform="translate(${MARGIN} ${height})">${svg}</g>`;
    height += used + MARGIN;
    return placed;
  });
  const label = devices.size === 0
    ? "No benches yet"
    : "Speed of the ops beside other libraries, and times of the benches run by run";
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${label}">`,
    `<style>${STYLE}</style>`,
    ...blocks,
    "</svg>\n",
  ].join("\n");
}

/** What one device has: its name, the comparison where there is one, the panels. */
function block(device: string, runs: readonly BenchRun[], width: number): Drawing {
  const parts = [text("device", 0, 14, `${device}: ${spanOf(runs)}`)];
  let y = HEADING;
  const peers = plotPeers(runs, width);
  if (peers) {
    parts.push(`<g transform="translate(0 ${y})">${peers.svg}</g>`);
    y += peers.height + PANEL.gap;
  }
  PANELS.forEach(({ name, title }, index) => {
    const left = (index % COLUMNS) * (PANEL.width + PANEL.gap);
    const top = y + Math.floor(index / COLUMNS) * (PANEL.height + PANEL.gap);
    const target = TARGETS.find((each) => each.name === name)?.below;
    parts.push(
      `<g transform="translate(${left} ${top})">${panel(title, points(runs, name), target)}</g>`,
    );
  });
  const rows = Math.ceil(PANELS.length / COLUMNS);
  return { svg: parts.join("\n"), height: y + rows * (PANEL.height + PANEL.gap) - PANEL.gap };
}

function points(runs: readonly BenchRun[], name: string): Point[] {
  return runs.flatMap(({ date, results }) => {
    const figure = results[name];
    return figure ? [{ date, ...figure }] : [];
  });
}

function panel(title: string, series: readonly Point[], target: number | undefined): string {
  const latest = series.at(-1);
  const parts = [
    `<rect class="frame" x="0.5" y="0.5" width="${PANEL.width - 1}" height="${
      PANEL.height - 1
    }" rx="6"/>`,
    text("title", 10, 18, title),
    text("value", 10, 37, latest ? formatFigure(latest) : "not measured"),
  ];
  if (!latest) return parts.join("");
  if (target !== undefined) {
    const goal = `target ${formatTarget(target)} ${latest.unit}`;
    parts.push(text("goal", PANEL.width - 10, 36, goal));
  }
  // The scale begins at zero, and a target far above all values would press them flat.
  const largest = Math.max(...series.map(({ value }) => value));
  const top = (target !== undefined && target < 3 * largest ? Math.max(target, largest) : largest) *
    1.1;
  const bottom = PANEL.height - PLOT.bottom;
  const y = (value: number) => round(bottom - Math.max(0, value) / top * (bottom - PLOT.top));
  const inner = PANEL.width - PLOT.left - PLOT.right - 12;
  const x = (index: number) =>
    round(PLOT.left + 6 + (series.length === 1 ? inner / 2 : index / (series.length - 1) * inner));
  if (target !== undefined && target <= top) {
    parts.push(
      `<path class="target" d="M${PLOT.left} ${y(target)}H${PANEL.width - PLOT.right}"/>`,
    );
  }
  const corners = series.map(({ value }, index) => `${x(index)} ${y(value)}`);
  if (series.length > 1) parts.push(`<path class="line" d="M${corners.join("L")}"/>`);
  series.forEach((point, index) =>
    parts.push(
      `<circle class="dot" cx="${x(index)}" cy="${y(point.value)}" r="2.5"><title>${
        point.date.slice(0, 10)
      }: ${formatFigure(point)}</title></circle>`,
    )
  );
  return parts.join("");
}

function spanOf(runs: readonly BenchRun[]): string {
  const days = runs.map(({ date }) => date.slice(0, 10));
  const [first, last] = [days[0]!, days.at(-1)!];
  return first === last ? first : `${first} to ${last}`;
}

function formatTarget(value: number): string {
  return String(Number(value.toPrecision(3)));
}

/** Where the image goes. */
const IMAGE: URL = new URL("../../bench/history.svg", import.meta.url);

/** Draws the history file anew. */
export function writePicture(): void {
  Deno.writeTextFileSync(IMAGE, plotHistory(readHistory()));
}

if (import.meta.main) writePicture();
