import assert from "node:assert/strict";
import type { Figures } from "./figures.ts";
import type { BenchRun } from "./history.ts";
import { PANELS, plotHistory } from "./plot.ts";

const run = (date: string, results: Figures, adapter = "software"): BenchRun => ({
  date,
  commit: null,
  device: { adapter, isSoftware: true, cores: 2 },
  load: 0,
  results,
});

const load = (value: number): Figures => ({ "load median": { value, unit: "s" } });

/** Vertical places of all dots, in the order of the document. */
function dots(svg: string): number[] {
  return [...svg.matchAll(/<circle [^>]*cy="([\d.]+)"/g)].map(([, y]) => Number(y));
}

Deno.test("plotHistory() draws every measured value once, larger ones higher", () => {
  const svg = plotHistory([
    run("2026-01-01T00:00:00Z", load(3)),
    run("2026-01-02T00:00:00Z", {}),
    run("2026-01-03T00:00:00Z", load(1)),
  ]);
  const [three, one, ...others] = dots(svg);
  assert.deepEqual(others, []);
  assert.ok(three! < one!, `3 s is drawn at ${three}, 1 s at ${one}`);
  assert.equal(svg.match(/class="line"/g)?.length, 1);
  assert.match(svg, />1\.00 s</);
  assert.match(svg, /2026-01-01 to 2026-01-03/);
  assert.equal(svg.match(/>not measured</g)?.length, PANELS.length - 1);
});

Deno.test("plotHistory() gives every device its own block and never mixes their values", () => {
  const one = plotHistory([run("2026-01-01T00:00:00Z", load(3))]);
  const two = plotHistory([
    run("2026-01-01T00:00:00Z", load(3)),
    run("2026-01-01T00:00:00Z", load(1), "A & B <GPU>"),
  ]);
  assert.equal(two.match(/class="device"/g)?.length, 2);
  assert.match(two, /A &amp; B &lt;GPU&gt;, 2 cores/);
  assert.equal(two.match(/class="line"/g), null);
  assert.ok(heightOf(two) > 1.8 * heightOf(one));
});

Deno.test("plotHistory() draws a target only where it does not press the values flat", () => {
  const near = plotHistory([run("2026-01-01T00:00:00Z", load(1.5))]);
  const far = plotHistory([run("2026-01-01T00:00:00Z", load(0.1))]);
  assert.match(near, /class="target"/);
  assert.doesNotMatch(far, /class="target"/);
  for (const svg of [near, far]) assert.match(svg, />target 2 s</);
});

Deno.test("plotHistory() draws the newest comparison: a bar for everybody, the ratio to the faster peer", () => {
  const rate = (value: number) => ({ value, unit: "GFLOP/s" } as const);
  const compared = (own: number) => ({
    "linear:1x2x3 by denoise": rate(own),
    "linear:1x2x3 by a": rate(5),
    "linear:1x2x3 by b": rate(10),
    "linear:1x2x3 by torch (CPU)": rate(77),
    "softmax:1x2": rate(1),
  });
  const svg = plotHistory([
    run("2026-01-01T00:00:00Z", compared(1)),
    run("2026-01-02T00:00:00Z", compared(40)),
    run("2026-01-03T00:00:00Z", load(1)),
  ]);
  const bars = [...svg.matchAll(/class="bar(\d)"[^>]* width="([\d.]+)"[^>]*><title>/g)];
  assert.deepEqual(bars.map(([, kind]) => kind), ["0", "1", "2"]);
  const [own, a, b] = bars.map(([, , width]) => Number(width));
  assert.deepEqual([own! / a!, own! / b!].map(Math.round), [8, 4]);
  assert.match(svg, />linear 1×2×3<.*>4\.0×<.*>77\.0</);
  assert.doesNotMatch(svg, /softmax/);
});

Deno.test("plotHistory() of nothing is still a image", () => {
  assert.match(plotHistory([]), /^<svg [^>]*aria-label="No benches yet"[\s\S]*<\/svg>\n$/);
});

function heightOf(svg: string): number {
  return Number(/ height="(\d+)"/.exec(svg)![1]);
}
