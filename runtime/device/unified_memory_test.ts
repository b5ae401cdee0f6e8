import assert from "node:assert/strict";
import { isUnified, unifiedBytes } from "./host_memory.ts";

const LINUX = { os: "linux", arch: "x86_64" } as const;

Deno.test("isUnified() tells cards from parts of processors by maker and name", () => {
  const names: readonly (readonly [vendor: string, name: string, expected: boolean])[] = [
    ["4318", "NVIDIA GeForce RTX 4090", false],
    ["nvidia", "NVIDIA H200", false],
    ["4318", "NVIDIA Tegra Orin (nvgpu)", true],
    ["4318", "NVIDIA GB10", true],
    ["4098", "AMD Radeon RX 7900 XTX (RADV NAVI31)", false],
    ["4098", "AMD Radeon Pro W7900 (RADV NAVI31)", false],
    ["amd", "AMD Radeon(TM) Graphics", true],
    ["4098", "AMD Radeon 780M Graphics (RADV PHOENIX)", true],
    ["4098", "AMD Custom GPU 0405 (RADV VANGOGH)", true],
    ["32902", "Intel(R) Arc(tm) A770 Graphics (DG2)", false],
    ["intel", "Intel(R) Arc(TM) B580 Graphics", false],
    ["32902", "Intel(R) Arc(tm) Graphics (MTL)", true],
    ["32902", "Intel(R) Arc(TM) 140V GPU (LNL)", true],
    ["32902", "Intel(R) UHD Graphics 770 (ADL-S GT1)", true],
    ["5045", "Mali-G610", true],
    ["", "unnamed adapter", false],
    // By Metal, on Macs with processors of Intel.
    ["0", "AMD Radeon Pro 5500M", false],
    ["0", "NVIDIA GeForce GT 750M", false],
    ["0", "Intel(R) UHD Graphics 630", true],
    ["0", "unnamed adapter", false],
  ];
  for (const [vendor, name, expected] of names) {
    assert.equal(isUnified({ vendor, name, isSoftware: false }, LINUX), expected, name);
  }
  const apple = { vendor: "apple", name: "Apple M3 Max", isSoftware: false };
  assert.equal(isUnified(apple, { os: "darwin", arch: "aarch64" }), true);
  assert.equal(isUnified({ vendor: "65541", name: "llvmpipe", isSoftware: true }, LINUX), true);
});

Deno.test("unifiedBytes() is at most 70 % of the system's memory, and no more than is free", () => {
  assert.equal(unifiedBytes(16e9, 15e9), 11.2e9);
  assert.equal(unifiedBytes(16e9, 4e9), 4e9);
});
