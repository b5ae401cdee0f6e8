import assert from "node:assert/strict";
import type { CompiledKernel } from "./compile.ts";
import { compare, readTable, rowsOf, writeTable } from "./table.ts";

const STATISTICS = {
  "VGPRs": 96,
  "Spilled VGPRs": 0,
  "Spilled SGPRs": 0,
  "Scratch size": 0,
  "LDS size": 1024,
  "Subgroups per SIMD": 10,
  "Code size": 1000,
  "Inverse Throughput": 200,
};

function compiled(
  name: string,
  statistics: Partial<typeof STATISTICS> = {},
  others: readonly string[] = [],
): CompiledKernel {
  return {
    ...{ name, others, from: "a model", isChosen: true, kernel: "gemm/shared", driver: "Mesa 1" },
    subgroupSize: 64,
    statistics: { ...STATISTICS, ...statistics },
  };
}

const SAVED = readTable(writeTable(rowsOf([compiled("a"), compiled("b")]), "Mesa 1"));

Deno.test("readTable() reads what writeTable() writes", () => {
  assert.equal(SAVED.driver, "Mesa 1");
  assert.deepEqual([...SAVED.rows.keys()], ["a", "b"]);
  assert.deepEqual(SAVED.rows.get("a"), rowsOf([compiled("a")])[0]!.figures);
});

Deno.test("rowsOf() takes the worst figures of a name", () => {
  const [row, ...others] = rowsOf([
    compiled("a", { "Subgroups per SIMD": 4 }),
    compiled("a", { "VGPRs": 128, "Spilled SGPRs": 2, "Spilled VGPRs": 3 }),
  ]);
  assert.equal(others.length, 0);
  const { vgprs, spills, waves } = row!.figures;
  assert.deepEqual({ vgprs, spills, waves }, { vgprs: 128, spills: 5, waves: 4 });
});

Deno.test("compare() fails on spills, scratch memory and lost waves, and on nothing else", () => {
  const now = [
    compiled("a", { "Spilled VGPRs": 7, "Scratch size": 28 }),
    compiled("b", { "Subgroups per SIMD": 9, "VGPRs": 100 }),
  ];
  assert.deepEqual(compare(SAVED, now), {
    failures: ["a: spills 0 to 7, scratch 0 to 28", "b: waves 10 to 9"],
    notes: [],
    missing: [],
  });
});

Deno.test("compare() notes a tenth more code and a twentieth more cost", () => {
  const now = [
    compiled("a", { "Code size": 1101, "Inverse Throughput": 211 }),
    compiled("b", { "Code size": 1100, "Inverse Throughput": 210 }),
  ];
  const { failures, notes } = compare(SAVED, now);
  assert.deepEqual([failures, notes], [[], ["a: code 1000 to 1101, cost 200 to 211"]]);
});

Deno.test("compare() finds a problem that another kernel now stands for, and names those that are gone", () => {
  const now = [compiled("c", { "Subgroups per SIMD": 1 }, ["a"])];
  const { failures, missing } = compare(SAVED, now);
  assert.deepEqual([failures, missing], [["a: waves 10 to 1"], ["b"]]);
});

Deno.test("rowsOf() reads the statistics of Intel's compiler", () => {
  const statistics = {
    "Max live registers": 140,
    "Spill Count": 2,
    "Fill Count": 5,
    "Scratch Memory Size": 1024,
    "Workgroup Memory Size": 4096,
    "Max dispatch width": 16,
    "Instruction Count": 900,
    "Cycle Count": 12000,
  };
  const [row] = rowsOf([{ ...compiled("a"), statistics }]);
  const expected = { vgprs: 140, spills: 2, scratch: 1024, lds: 4096, waves: 16, code: 900 };
  assert.deepEqual(row!.figures, { ...expected, cost: 12000 });
});
