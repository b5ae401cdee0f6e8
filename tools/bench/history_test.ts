import assert from "node:assert/strict";
import {
  type BenchRun,
  comparisonTable,
  formatFigure,
  historyLine,
  improvement,
  latestFigures,
  median,
  parseHistory,
  readHistory,
} from "./history.ts";

const device = { adapter: "software", isSoftware: true, cores: 2 };
const run = (over: Partial<BenchRun>): BenchRun => ({
  date: "2026-01-02T03:04:05Z",
  commit: null,
  device,
  load: 0.1,
  results: {},
  ...over,
});

Deno.test("parseHistory() reads back what historyLine() wrote, four digits of each value", () => {
  const written = run({ commit: "abc1234+", results: { load: { value: 1.23456, unit: "s" } } });
  const [read, ...others] = parseHistory(`${historyLine(written)}\n`);
  assert.deepEqual(others, []);
  assert.deepEqual(read, { ...written, results: { load: { value: 1.235, unit: "s" } } });
});

Deno.test("parseHistory() names the line that is not a run", () => {
  const good = historyLine(run({}));
  assert.throws(() => parseHistory(`${good}{`), /line 2 .* not a run/);
  assert.throws(() => parseHistory(`${good}${good}{"date":"2026-01-01"}`), /line 3 .* not a run/);
  assert.throws(
    () => parseHistory(good.replace("2026-01-02T03:04:05Z", "yesterday")),
    /line 1 .* not a run/,
  );
  assert.throws(
    () => parseHistory(good.replace('"results":{}', '"results":{"load":1.5}')),
    /line 1 .* not a run/,
  );
});

Deno.test("latestFigures() takes each figure's newest value on the same device", () => {
  const runs = [
    run({ results: { a: { value: 1, unit: "s" }, b: { value: 2, unit: "s" } } }),
    run({ results: { a: { value: 3, unit: "s" } } }),
    run({ device: { ...device, cores: 8 }, results: { a: { value: 4, unit: "s" } } }),
    run({ device: { ...device, adapter: "x" }, results: { c: { value: 5, unit: "s" } } }),
  ];
  assert.deepEqual(latestFigures(runs, device), {
    a: { value: 3, unit: "s" },
    b: { value: 2, unit: "s" },
  });
});

Deno.test("improvement() is above 1 for shorter times and for higher rates", () => {
  assert.equal(improvement({ value: 4, unit: "s" }, { value: 2, unit: "s" }), 2);
  assert.equal(improvement({ value: 4, unit: "GFLOP/s" }, { value: 2, unit: "GFLOP/s" }), 0.5);
  assert.equal(improvement({ value: 4, unit: "s" }, { value: 2, unit: "ms" }), undefined);
  assert.equal(improvement({ value: 0, unit: "kB" }, { value: 2, unit: "kB" }), undefined);
  assert.equal(improvement({ value: 2, unit: "kB" }, { value: -1, unit: "kB" }), undefined);
});

Deno.test("comparisonTable() says the ratio to before", () => {
  const lines = comparisonTable(
    { "load median": { value: 2.5, unit: "s" }, "new": { value: 60, unit: "s" } },
    { "load median": { value: 5, unit: "s" } },
  );
  assert.deepEqual(lines, ["load median  2.50 s  was 5.00 s, x2.00", "new          60.0 s"]);
});

Deno.test("median() is the middle value, or the mean of the two in the middle", () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 3, 2]), 2.5);
});

Deno.test("readHistory() reads the history that is kept", () => {
  assert.ok(readHistory().length > 10);
});

Deno.test("formatFigure() keeps three digits and no exponents", () => {
  assert.equal(formatFigure({ value: 12345.6, unit: "/s" }), "12346 /s");
  assert.equal(formatFigure({ value: 0.012345, unit: "s" }), "0.0123 s");
  assert.equal(formatFigure({ value: 0, unit: "%" }), "0.00 %");
});
