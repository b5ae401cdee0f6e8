import assert from "node:assert/strict";
import { likelyBytes } from "./card_memory.ts";
import type { VulkanAdapter } from "./vulkan_adapters.ts";

Deno.test("likelyBytes() takes what a card has of its own, the system's memory for others, and guesses nothing", () => {
  const adapter = (name: string, kind: VulkanAdapter["kind"]): VulkanAdapter => ({
    ...{ name, kind, vendorId: 0, deviceId: 0, driverVersion: 0, memoryBytes: 24e9 },
  });
  const adapters = [adapter("a", "discrete"), adapter("b", "integrated"), adapter("c", "virtual")];
  const of = (name: string, os = "linux", arch = "x86_64") =>
    likelyBytes(name, adapters, { os, arch });
  assert.equal(of("a"), 22.8e9);
  for (const bytes of [of("b"), of("Apple M9", "darwin", "aarch64")]) {
    assert.ok(bytes! > 0 && bytes! < 1e13);
  }
  assert.deepEqual([of("c"), of("d"), of("", "darwin")], [undefined, undefined, undefined]);
});
