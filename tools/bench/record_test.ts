import assert from "node:assert/strict";
import type { BenchRun } from "./history.ts";
import type { OpResult, PeerRun } from "./peers/results.ts";
import { benchRecord, peerFigures } from "./record.ts";

const RUN: BenchRun = {
  date: "2026-11-20T12:00:00Z",
  commit: "abc",
  device: { adapter: "GPU", isSoftware: false, cores: 2 },
  load: 0,
  results: {},
};

function comparison(peers: Record<string, number>): PeerRun {
  const op: OpResult = {
    op: "linear",
    shape: "1x2x3",
    weights: "f32",
    schedule: "gpu",
    kernels: [],
    gflops: 4,
    gbps: 1,
    ceiling_share: 0.5,
    peers,
    yardsticks: { torch: 9 },
    max_errors: {},
    left_out: {},
  };
  return { ceiling: { flopsPerSecond: 8e9, bytesPerSecond: 2e9 }, ops: [op], left_out: {} };
}

Deno.test("benchRecord() has device, ops and models, empty where they were not measured", () => {
  const models = { "load best": { value: 1, unit: "s" } } as const;
  const full = benchRecord(RUN, comparison({ a: 1 }), models);
  assert.deepEqual(full.device, { ...RUN.device, ceiling: { gflops: 8, gbps: 2 } });
  assert.deepEqual(full.ops.map(({ op, peers }) => [op, peers]), [["linear", { a: 1 }]]);
  assert.deepEqual(full.models, [{ name: "load best", value: 1, unit: "s" }]);
  assert.deepEqual(benchRecord(RUN, undefined, {}), { ...RUN, ops: [], models: [] });
});

Deno.test("peerFigures() are ours and the faster peer's, without yardsticks", () => {
  const rate = (value: number) => ({ value, unit: "GFLOP/s" });
  assert.deepEqual(peerFigures(comparison({ a: 1, b: 3 })), {
    "linear:1x2x3": rate(4),
    "linear:1x2x3 by the faster peer": rate(3),
  });
  assert.deepEqual(peerFigures(comparison({})), { "linear:1x2x3": rate(4) });
});
