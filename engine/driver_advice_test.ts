import assert from "node:assert/strict";
import { isDirect3D, vulkanAdvice } from "./driver_advice.ts";

Deno.test("isDirect3D() tells Windows' Direct3D 12 through Deno's WebGPU from Vulkan and Dawn", () => {
  const device = (backend: string, f16: boolean) => ({ backend, f16, subgroups: f16 });
  assert.equal(isDirect3D(device("deno", false), "windows"), true);
  assert.equal(isDirect3D(device("deno", true), "windows"), false);
  assert.equal(isDirect3D(device("dawn", false), "windows"), false);
  assert.equal(isDirect3D(device("deno", false), "linux"), false);
});

Deno.test("vulkanAdvice() asks for a newer Mesa on RDNA3 alone", () => {
  const adapter = (name: string, major: number) => ({
    name,
    vendorId: 0x1002,
    deviceId: 0x744c,
    kind: "discrete" as const,
    driverVersion: (major << 22) | (3 << 12) | 6,
    memoryBytes: 24e9,
  });
  const card = "AMD Radeon RX 7900 XTX (RADV NAVI31)";
  assert.match(vulkanAdvice(adapter(card, 22))!, /^Mesa 22 .*RX 7900.*install Mesa 25/);
  assert.equal(vulkanAdvice(adapter(card, 25)), undefined);
  assert.equal(vulkanAdvice(adapter("AMD Radeon RX 6800 (RADV NAVI21)", 22)), undefined);
});
