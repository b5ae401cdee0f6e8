import assert from "node:assert/strict";
import type { Device } from "./device.ts";
import { measureMemory } from "./measure_memory.ts";
import { openDevice } from "../open_device.ts";

const MIB = 1024 * 1024;

/** A device whose driver has `freeBytes`; what is allocated of it is counted. */
function deviceWith(freeBytes: number, isSoftware = false, availableBytes = Infinity) {
  const state = { taken: 0, most: 0, refusal: null as object | null };
  const device = {
    availableBytes,
    adapter: { isSoftware },
    target: { limits: { maxBufferBytes: 2 ** 31 } },
    gpuDevice: {
      pushErrorScope: () => {},
      createBuffer: ({ size }: { size: number }) => {
        const hasRoom = state.taken + size <= freeBytes;
        state.refusal = hasRoom ? null : {};
        if (hasRoom) state.taken += size;
        state.most = Math.max(state.most, state.taken);
        return { destroy: () => hasRoom && (state.taken -= size) };
      },
      popErrorScope: () => {
        const { refusal } = state;
        state.refusal = null;
        return Promise.resolve(refusal);
      },
    },
  };
  return { state, device: device as unknown as Device };
}

Deno.test("measureMemory() tries no more than is wanted, and frees all of it", async () => {
  const { state, device } = deviceWith(Infinity);
  assert.equal(await measureMemory(device, 1000 * MIB), 1000 * MIB);
  assert.deepEqual([state.taken, state.most], [0, 1000 * MIB]);
  assert.equal(await measureMemory(device, -5), 0);
});

Deno.test("measureMemory() gives a little less than what the driver refused to go beyond", async () => {
  const { state, device } = deviceWith(1000 * MIB);
  const found = await measureMemory(device, 5000 * MIB);
  assert.ok(found > 0.9 * 768 * MIB && found < 1000 * MIB, `${found} bytes`);
  assert.equal(state.taken, 0);
});

Deno.test("measureMemory() asks neither beyond a budget, nor a software adapter", async () => {
  const budgeted = deviceWith(Infinity, false, 300 * MIB);
  assert.equal(await measureMemory(budgeted.device, 1000 * MIB), 300 * MIB);
  assert.equal(budgeted.state.most, 300 * MIB);
  const software = deviceWith(Infinity, true, 400 * MIB);
  assert.equal(await measureMemory(software.device, 1000 * MIB), 400 * MIB);
  assert.equal(await measureMemory(software.device, 1000 * MIB, () => 200 * MIB), 200 * MIB);
  assert.equal(software.state.most, 0);
});

Deno.test("measureMemory() leaves a real device as it was", async () => {
  const device = await openDevice({ maxBytes: 64 * MIB });
  try {
    const adapter = { ...device.adapter, isSoftware: false };
    const asked = Object.create(device, {
      adapter: { value: adapter },
      availableBytes: { value: 64 * MIB },
      gpuDevice: { value: device.gpuDevice },
      target: { value: device.target },
    });
    assert.equal(await measureMemory(asked, 100 * MIB), 64 * MIB);
    assert.equal(device.allocatedBytes, 0);
    device.check();
  } finally {
    device.destroy();
  }
});
