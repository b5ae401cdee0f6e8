import { strict as assert } from "node:assert";
import type { DeviceReport } from "../engine/reports.ts";
import { describeGpus, describeReport, findProblem } from "./doctor.ts";

const REPORT: DeviceReport = {
  adapter: "Test GPU",
  vendor: "Test Works",
  driver: "",
  backend: "deno",
  isSoftware: true,
  isUnified: true,
  maxBytes: 5.6e9,
  limits: { maxBufferSize: 1024 },
  features: ["f16"],
  kernels: [{ op: "linear", problemClass: "rows<=4", variant: "rows", why: "measured: 2× shared" }],
  selfTests: [{ name: "matmul", outcome: "passed", detail: "2 cases within tolerance" }],
};

Deno.test("describeReport() shows adapter, driver, features, limits and tests", () => {
  const text = describeReport(REPORT);
  for (
    const part of ["Test GPU (software", "Test Works", "not told", "f16", "maxBufferSize", "1024"]
  ) assert.ok(text.includes(part), part);
  assert.match(text, /ok\s+matmul: 2 cases within tolerance/);
});

Deno.test("describeReport() says skipped, and why, of a test that ran nothing", () => {
  const skipped = { name: "linear: matrix units", outcome: "skipped", detail: "none" } as const;
  const text = describeReport({ ...REPORT, selfTests: [skipped] });
  assert.match(text, /^ {2}skipped linear: matrix units: none$/m);
});

Deno.test("findProblem() is content only when tests ran and all passed", () => {
  assert.equal(findProblem(REPORT), undefined);
  const failed = { name: "softmax", outcome: "failed", detail: "NaN" } as const;
  const skipped = { name: "linear: matrix units", outcome: "skipped", detail: "none" } as const;
  const selfTests = [...REPORT.selfTests, skipped];
  assert.equal(findProblem({ ...REPORT, selfTests }), undefined);
  assert.match(
    findProblem({ ...REPORT, selfTests: [...selfTests, failed] })!,
    /self-test failed in softmax/,
  );
  assert.match(findProblem({ ...REPORT, selfTests: [skipped] })!, /no self-test could run/);
  assert.match(findProblem({ ...REPORT, selfTests: [] })!, /no self-test could run/);
});

Deno.test("describeGpus() numbers the GPUs, and says how to use them", () => {
  const ids = { vendorId: 1, deviceId: 1, driverVersion: 0 };
  const gpus = [
    { ...ids, name: "Big", kind: "discrete", memoryBytes: 24e9, pci: "0000:01:00.0" },
    { ...ids, name: "Small", kind: "integrated", memoryBytes: 8e9 },
  ] as const;
  const text = describeGpus(gpus, true);
  assert.match(text, /^ {2}0 {2}Big \(discrete, 24\.0 GB, 0000:01:00\.0\)$/m);
  assert.match(text, /^ {2}1 {2}Small \(integrated\)$/m);
  assert.match(text, /--num-gpus 2/);
  assert.match(describeGpus(gpus, false, "linux"), /mesa-vulkan-drivers/);
  assert.match(describeGpus(gpus, false, "windows"), /0 is the faster one, 1 the one that saves/);
});

Deno.test("describeReport() names the maker behind a number", () => {
  assert.match(describeReport({ ...REPORT, vendor: "4318" }), /Vendor\s+NVIDIA \(0x10de\)/);
  assert.match(describeReport({ ...REPORT, vendor: "7" }), /Vendor\s+unknown \(0x7\)/);
});
