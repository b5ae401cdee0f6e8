import assert from "node:assert/strict";
import { parseCase } from "./cases.ts";
import { JAX, ONNX_RUNTIME } from "./packages.ts";
import { type ComparedOp, comparedResult, peerTable, ratioToFasterPeer } from "./results.ts";

/** 2000 operations and 1200 bytes in one call. */
const OP = parseCase("matmul:10x10x10");

function measured(times: Record<string, number | string>): ComparedOp {
  const measurements = Object.entries(times).map(([name, time]) =>
    typeof time === "number"
      ? { name, milliseconds: time, maxError: 1e-7, reason: undefined }
      : { name, milliseconds: undefined, maxError: undefined, reason: time }
  );
  return { op: OP, deviceClass: "cpu", kernels: ["gemm"], measurements };
}

Deno.test("comparedResult() keeps peers, yardsticks and reasons apart", () => {
  const op = measured({ ours: 1e-3, a: 2e-3, b: "no adapter", torch: 1e-4 });
  const result = comparedResult(op, { flopsPerSecond: 4e9, bytesPerSecond: 100e9 }, ["torch"]);
  assert.deepEqual([result.op, result.shape], ["matmul", "10x10x10"]);
  assert.deepEqual([result.gflops, result.gbps, result.ceiling_share], [2, 1.2, 0.5]);
  assert.deepEqual([result.peers, result.yardsticks], [{ a: 1 }, { torch: 20 }]);
  assert.deepEqual(result.left_out, { b: "no adapter" });
  assert.deepEqual(result.max_errors, { a: 1e-7, torch: 1e-7 });
});

Deno.test("ratioToFasterPeer() is to the faster one, and yardsticks are none", () => {
  const ratio = (times: Record<string, number>) =>
    ratioToFasterPeer(
      comparedResult(measured(times), { flopsPerSecond: 4e9, bytesPerSecond: 4e9 }, ["torch"]),
    );
  assert.equal(ratio({ ours: 1e-3, a: 4e-3, b: 2e-3, torch: 1e-5 }), 2);
  assert.equal(ratio({ ours: 1e-3, torch: 1e-5 }), undefined);
});

Deno.test("peerTable() has a column for everybody and a line for who is left out", () => {
  const ceiling = { flopsPerSecond: 4e9, bytesPerSecond: 100e9 };
  const ops = [
    comparedResult(measured({ ours: 1e-3, a: 2e-3, b: 4e-3 }), ceiling, []),
    comparedResult(measured({ ours: 1e-3, a: 5e-4, b: "out of memory" }), ceiling, []),
  ];
  const lines = peerTable({ ceiling, ops, left_out: { torch: "not installed" } });
  assert.deepEqual(lines, [
    "GFLOP/s               ms  GB/s  of ceiling  denoise     a      b  to the faster",
    "matmul:10x10x10  0.00100  1.20        50 %     2.00  1.00  0.500          x2.00",
    "matmul:10x10x10  0.00100  1.20        50 %     2.00  4.00                 x0.50",
    "ceiling: 4.00 GFLOP/s, 100 GB/s",
    "left out: torch: not installed",
    "left out: b, matmul:10x10x10: out of memory",
  ]);
});

Deno.test("peers are exact versions, locked for their own process and unknown to the program's lock", () => {
  const specifiers = (path: string) =>
    Object.keys(JSON.parse(Deno.readTextFileSync(new URL(path, import.meta.url))).specifiers);
  const peers = [JAX, ONNX_RUNTIME].map(({ specifier }) => specifier);
  for (const specifier of peers) assert.match(specifier, /^npm:.+@\d+\.\d+\.\d+$/);
  assert.deepEqual(specifiers("deno.lock").sort(), peers.toSorted());
  const own = specifiers("../../../deno.lock");
  assert.deepEqual(peers.filter((specifier) => own.includes(specifier)), []);
});
