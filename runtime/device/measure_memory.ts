/** How much device memory can be had: WebGPU does not tell, so buffers are allocated until the driver refuses one. */
import type { Device } from "./device.ts";
import { usableHostBytes } from "./host_memory.ts";

const CHUNK_BYTES = 256 * 1024 * 1024;
/** What is taken of memory that had an end: pipelines and the driver's own need the rest. */
const USABLE_SHARE = 0.95;

/**
 * Bytes of `wantedBytes` that can be allocated beside what already is. All of it is free again afterwards. A software
 * adapter is not asked, because it gives memory that the machine does not have: there the machine is.
 *
 * @param hostBytes of the machine's memory that tensors may take
 */
export async function measureMemory(
  device: Device,
  wantedBytes: number,
  hostBytes: () => number = usableHostBytes,
): Promise<number> {
  const most = Math.max(0, Math.min(wantedBytes, device.availableBytes));
  if (device.adapter.isSoftware) return Math.min(most, hostBytes());
  const { gpuDevice, target } = device;
  const chunkBytes = Math.min(CHUNK_BYTES, target.limits.maxBufferBytes);
  const buffers: GPUBuffer[] = [];
  try {
    for (let had = 0; had < most; had += chunkBytes) {
      const size = Math.ceil(Math.min(chunkBytes, most - had) / 4) * 4;
      gpuDevice.pushErrorScope("out-of-memory");
      gpuDevice.pushErrorScope("validation");
      buffers.push(gpuDevice.createBuffer({ label: "measured", size, usage: STORAGE_USAGE }));
      const refusals = [await gpuDevice.popErrorScope(), await gpuDevice.popErrorScope()];
      if (refusals.some((error) => error !== null)) return Math.floor(had * USABLE_SHARE);
    }
    return most;
  } finally {
    for (const buffer of buffers) buffer.destroy();
  }
}

const STORAGE_USAGE = 0x80 | 0x08 | 0x04; // STORAGE | COPY_DST | COPY_SRC
