import assert from "node:assert/strict";
import { z } from "zod";
import { parseCase } from "../../report/op_cases.ts";
import type { BenchRun } from "./history.ts";
import { type OpResult, opResult } from "./op_result.ts";
import { benchRecord, opFigures, peerFigures } from "./record.ts";

const RUN: BenchRun = {
  date: "2026-11-20T12:00:00Z",
  commit: "abc",
  device: { adapter: "GPU", isSoftware: false, cores: 2 },
  load: 0,
  results: {},
};

const CEILING = { flopsPerSecond: 8e9, bytesPerSecond: 2e9 };

/** What readers of the file may rely on. */
const RECORD = z.object({
  date: z.iso.datetime(),
  commit: z.string().nullable(),
  device: z.object({
    adapter: z.string(),
    isSoftware: z.boolean(),
    cores: z.int().positive(),
    ceiling: z.object({ gflops: z.number().positive(), gbps: z.number().positive() }).optional(),
  }),
  ops: z.array(z.object({
    op: z.string().min(1),
    shape: z.string().regex(/^\d+(x\d+)*$/),
    weights: z.string().min(1),
    schedule: z.string().min(1),
    variant: z.string().optional(),
    milliseconds: z.number().positive(),
    gflops: z.number().positive(),
    gbps: z.number().positive(),
    ceiling_share: z.number().positive(),
    peers: z.record(z.string(), z.number().positive()),
  })),
  models: z.array(z.object({ name: z.string().min(1), value: z.number(), unit: z.string() })),
  gates: z.array(
    z.object({ name: z.string(), ratio: z.number(), bound: z.number(), met: z.boolean() }),
  ),
});

function result(spec: string, over: Partial<OpResult> = {}): OpResult {
  const measured = {
    op: parseCase(spec),
    deviceClass: "gpu",
    kernels: ["prepare", "gemm"],
    milliseconds: 1,
  } as const;
  return { ...opResult(measured, CEILING), ...over };
}

Deno.test("benchRecord() is as the schema says, as text too, measured or not", () => {
  const models = { "load best": { value: 1, unit: "s" } } as const;
  const ops = [
    result("matmul:8x8x8", { peers: { a: 1 } }),
    result("conv2d:8x8x4x4", { variant: "tiles" }),
    result("conv3d:2x8x8x4x4"),
  ];
  for (
    const record of [
      benchRecord(RUN, { ops, ceiling: CEILING, models }),
      benchRecord(RUN, { ops: [], ceiling: undefined, models: {} }),
    ]
  ) {
    RECORD.parse(JSON.parse(JSON.stringify(record)));
  }
});

Deno.test("benchRecord() has device, ops, models and gates, empty where they were not measured", () => {
  const models = { "load best": { value: 1, unit: "s" } } as const;
  const ops = [result("matmul:8x8x8", { gflops: 10 }), result("conv2d:8x8x4x4", { gflops: 7 })];
  const full = benchRecord(RUN, { ops, ceiling: CEILING, models });
  assert.deepEqual(full.device, { ...RUN.device, ceiling: { gflops: 8, gbps: 2 } });
  assert.deepEqual(full.ops, ops);
  assert.deepEqual(full.models, [{ name: "load best", value: 1, unit: "s" }]);
  assert.deepEqual(full.gates.map(({ ratio, met }) => [ratio, met]), [[0.7, true]]);
  const empty = benchRecord(RUN, { ops: [], ceiling: undefined, models: {} });
  assert.deepEqual(empty, { ...RUN, ops: [], models: [], gates: [] });
});

Deno.test("opResult() names the last kernel, rates and the share of the ceiling", () => {
  const { schedule, gflops, gbps, ceiling_share } = result("linear:100x100x100");
  assert.deepEqual([schedule, gflops, gbps, ceiling_share], ["gemm", 2, 0.12, 0.25]);
});

Deno.test("opFigures() leave out variants that were only tried", () => {
  const ops = [result("linear:1x2x256:q8_0"), result("linear:1x2x256", { variant: "rows" })];
  assert.deepEqual(Object.keys(opFigures(ops)), ["linear:1x2x256:q8_0"]);
});

Deno.test("peerFigures() are everybody's, ours too", () => {
  const rate = (value: number) => ({ value, unit: "GFLOP/s" });
  const ops = [
    result("linear:1x2x3", { gflops: 4, peers: { a: 1, b: 3 }, yardsticks: { torch: 9 } }),
  ];
  assert.deepEqual(peerFigures(ops), {
    "linear:1x2x3 by denoise": rate(4),
    "linear:1x2x3 by a": rate(1),
    "linear:1x2x3 by b": rate(3),
    "linear:1x2x3 by torch": rate(9),
  });
});
