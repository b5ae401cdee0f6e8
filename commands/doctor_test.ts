import { strict as assert } from "node:assert";
import type { DeviceReport } from "../engine/types.ts";
import { describeReport, findProblem } from "./doctor.ts";

const REPORT: DeviceReport = {
  adapter: "Test GPU",
  vendor: "Test Works",
  driver: "",
  backend: "deno",
  isSoftware: true,
  limits: { maxBufferSize: 1024 },
  features: ["f16"],
  kernels: [{ op: "linear", problemClass: "rows<=4", variant: "rows", why: "measured: 2× shared" }],
  selfTests: [{ name: "matmul", passed: true, detail: "worst difference 1e-6" }],
};

Deno.test("describeReport() shows adapter, driver, features, limits and tests", () => {
  const text = describeReport(REPORT);
  for (
    const part of ["Test GPU (software", "Test Works", "not told", "f16", "maxBufferSize", "1024"]
  ) assert.ok(text.includes(part), part);
  assert.match(text, /ok\s+matmul: worst difference 1e-6/);
});

Deno.test("findProblem() is content only when tests ran and all passed", () => {
  assert.equal(findProblem(REPORT), undefined);
  const selfTests = [...REPORT.selfTests, { name: "softmax", passed: false, detail: "NaN" }];
  assert.match(findProblem({ ...REPORT, selfTests })!, /wrong results in softmax/);
  assert.match(findProblem({ ...REPORT, selfTests: [] })!, /no self-test could run/);
});

Deno.test("describeReport() names the maker behind a number", () => {
  assert.match(describeReport({ ...REPORT, vendor: "4318" }), /Vendor\s+NVIDIA \(0x10de\)/);
  assert.match(describeReport({ ...REPORT, vendor: "7" }), /Vendor\s+unknown \(0x7\)/);
});
