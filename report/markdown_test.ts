import assert from "node:assert/strict";
import { reportMarkdown } from "./markdown.ts";
import type { GpuReport, OpRow, PartRow } from "./types.ts";

const FEATURES = {
  ...{ f16: true, subgroups: true, timestamps: true, subgroupSizeControl: false },
  ...{ subgroupMinSize: 32, subgroupMaxSize: 32, subgroupMatrices: [] },
};
const LIMITS = {
  ...{ maxBindingBytes: 2 ** 31, maxBufferBytes: 2 ** 31, maxStorageBuffers: 10 },
  ...{ maxWorkgroupInvocations: 1024, maxWorkgroupMemoryBytes: 32768 },
  maxWorkgroupsPerDimension: 65535,
};
const OP: OpRow = {
  spec: "linear:4160x10240x3840:bf16",
  variant: "shared64",
  isRule: true,
  isTuned: false,
  kernels: ["gemm/shared"],
  ms: 10,
  flops: 327e9,
  bytes: 3e8,
  share: 0.5,
};
const PART: PartRow = {
  title: "Z-Image-Turbo, a step",
  ...{ width: 1024, height: 1024, format: "bf16", layers: { run: 30, all: 30 } },
  ...{ flops: 55e12, dispatches: 454, weightBytes: 12e9, workspaceBytes: 6e8 },
  loading: { pipelines: 14, compileSeconds: 3, weightBytes: 12e9, uploadSeconds: 8 },
  tuned: { wallMs: 2200, busyMs: 2150, waits: 25 },
  untuned: { wallMs: 2500, waits: 28 },
  streamed: { wallMs: 9000, waits: 99 },
  kernels: [{ name: "gemm/shared ROWS=64", dispatches: 240, ms: 1500 }],
};
const { tuned: _, ...untimed } = PART;
const leftOut: PartRow = { ...untimed, format: "q8_0", error: "it would take about 90 s" };
const REPORT: GpuReport = {
  format: 1,
  date: "2026-01-02T03:04:05.678Z",
  denoise: "0.1.0",
  minutes: 10,
  machine: {
    os: "linux x86_64, 6.1",
    cpu: "A CPU",
    cores: 16,
    memory: 2 ** 36,
    runtime: "deno 2.9.6",
  },
  sections: [
    {
      ...{ name: "environment", backend: "deno", state: "done", seconds: 1 },
      data: {
        ...{ adapter: "Test GPU", vendor: "Test Works", driver: "", isSoftware: false },
        ...{ dialect: "naga", features: FEATURES, limits: LIMITS },
        allocatable: { bytes: 23.5 * 2 ** 30, isAll: true },
      },
    },
    {
      ...{ name: "probes", backend: "deno", state: "done", seconds: 20 },
      data: {
        ...{ clock: "timestamps", arithmetic: { f32: 78.1e12, f16: 79e12 }, idleMs: 11.2 },
        reads: [{ bytes: 2 ** 30, bytesPerSecond: 910e9 }, {
          bytes: 2 ** 20,
          bytesPerSecond: 4e12,
        }],
        ...{ copies: 850e9, launchUs: 4.2, uploads: [{ bytes: 2 ** 24, ms: 8 }], readBacks: [] },
        compilations: [{ spec: OP.spec, kernel: "gemm/shared M=1", ms: 120 }],
      },
    },
    {
      ...{ name: "correctness", backend: "deno", state: "cut", seconds: 100 },
      data: {
        ...{ total: 900, ran: 700, passed: 699, refused: 150, pipelines: 500 },
        failures: [{ op: "linear", variant: "rows", case: "M=1", message: "Cannot | accept" }],
      },
    },
    {
      ...{ name: "ops", backend: "deno", state: "done", seconds: 60 },
      data: {
        rows: [
          OP,
          { ...OP, variant: "matrix128", isRule: false, isTuned: true, ms: 5, share: 0.9 },
          {
            ...OP,
            ...{ spec: "rms_norm:4160x3840", scaled: "rms_norm:64x3840", variant: "gpu" },
            ...{ flops: 1e6, bytes: 1e6, ms: 0.01 },
          },
        ],
      },
    },
    {
      ...{ name: "steps", backend: "deno", state: "failed", seconds: 60 },
      reason: "its process was ended by SIGABRT",
      data: {
        rows: [
          PART,
          { ...PART, format: "q4_k", layers: { run: 2, all: 30 } },
          leftOut,
        ],
      },
    },
  ],
};

const text = reportMarkdown(REPORT);

Deno.test("reportMarkdown() says in its first lines what matters", () => {
  const head = text.slice(0, text.indexOf("## Correctness"));
  for (
    const line of [
      "# GPU report: Test GPU",
      "- **Steps, Deno:** its process was ended by SIGABRT",
      "- **Deno computes wrong results** in 1 of 700 cases, see below.",
      "| f32 in registers | 78.1 TFLOP/s |",
      "| Memory | 910 GB/s |",
      "| `linear:4160x10240x3840:bf16` | 65.4 TFLOP/s (90 %) |",
      "| Z-Image-Turbo, a step, bf16 at 1024×1024 | 2.20 s |",
    ]
  ) assert.ok(head.includes(`${line}\n`), `${line}\n${head}`);
});

Deno.test("reportMarkdown() has a row for everything that was measured, scaled sizes and missing layers named", () => {
  for (
    const line of [
      "| `rms_norm:4160x3840` (as `rms_norm:64x3840`) | gpu | 100 GB/s | 50 % |",
      "| `linear:4160x10240x3840:bf16` | Deno | shared64 (rule) | 10.0 ms | 32.7 TFLOP/s | 50 % |",
      "| Z-Image-Turbo, a step, bf16 at 1024×1024 | Deno | 2.20 s | 98 % | 25 | 25.0 TFLOP/s | 2.50 s | 9.00 s | 11.7 GiB |",
      "- Z-Image-Turbo, a step, q8_0, Deno: it would take about 90 s",
      "| Upload of 16 MiB | 8.00 ms, 2.10 GB/s |",
      "| Memory that could be allocated | 23.5 GiB |",
    ]
  ) assert.ok(text.includes(`${line}\n`), `${line}\n${text}`);
  assert.match(text, /q4_k at 1024×1024, 2 of 30 layers/);
  assert.match(text, /there was no time for 50\./);
  assert.match(text, /- linear \(rows\): Cannot \\\| accept/);
});

Deno.test("reportMarkdown() explains shares of more than the ceiling, where there are any", () => {
  assert.doesNotMatch(text, /More than 100 %/);
  const data = { clock: "timestamps" as const, rows: [{ ...OP, share: 2.5 }] };
  const sections = REPORT.sections.map((section) =>
    section.name === "ops" ? { ...section, data } : section
  );
  const told = reportMarkdown({ ...REPORT, sections } as GpuReport);
  assert.match(told, /something else used the adapter while the probes ran/);
});

Deno.test("reportMarkdown() puts torch beside what it can be compared with", () => {
  const torch = {
    ...{ device: "cuda", torch: "2.11", dtype: "bf16" },
    ops: [{ spec: "linear:4160x10240x3840", ms: 2, flops: OP.flops, bytes: OP.bytes }],
    parts: [{ title: PART.title, width: 1024, height: 1024, ms: 400 }],
  };
  const lines = reportMarkdown(REPORT, torch).split("\n");
  assert.ok(
    lines.some((line) => line.endsWith("| matrix128 | 65.4 TFLOP/s | 90 % | 164 TFLOP/s |")),
  );
  const [whole, part] = lines.filter((line) => / Deno \| 2\.20 s /.test(line)) as [string, string];
  assert.ok(whole.endsWith("| 400 ms |"), whole);
  assert.ok(part.endsWith("| – |"), "a part of the layers is not compared");
});

Deno.test("reportMarkdown() writes tables whose rows are as wide as their heads", () => {
  for (const block of text.split("\n\n").filter((each) => each.startsWith("|"))) {
    const widths = block.trim().split("\n").map((line) => line.split(/(?<!\\)\|/).length);
    assert.equal(new Set(widths).size, 1, block);
  }
});
