/** How long it takes to hand tensors from GPU to GPU through the computer's memory: measured with some of them. */
import type { Device } from "../device/device.ts";

/** Bytes that are moved once, to see how fast it goes; fewer where there is no room. */
const PROBE_BYTES = 16 * 1024 * 1024;
/** Small ones that are read, to see what a wait takes. */
const PROBES = 5;

/** What a rank brings and takes in a while. */
export interface ExchangedBytes {
  /** Meetings. */
  readonly count: number;
  /** Read from the GPU. */
  readonly broughtBytes: number;
  /** Written to it. */
  readonly takenBytes: number;
}

/**
 * Estimates the time of exchanges on this machine. Everything goes through the memory of one process twice: into what the
 * ranks share, and out of it.
 *
 * @returns seconds
 */
export async function estimateExchange(
  device: Device,
  { count, broughtBytes, takenBytes }: ExchangedBytes,
): Promise<number> {
  const size = Math.min(PROBE_BYTES, Math.floor(device.availableBytes / 4096) * 1024);
  const buffer = device.createBuffer("probe", size);
  try {
    const read = (size: number) => secondsOf(() => device.read([{ buffer, offset: 0, size }]));
    const bytes = new Uint8Array(size).fill(1);
    const shared = new Uint8Array(new SharedArrayBuffer(size));
    await read(size);
    const waits: number[] = [];
    for (let i = 0; i < PROBES; i++) waits.push(await read(4));
    const wait = waits.sort((a, b) => a - b)[PROBES >> 1]!;
    const beyond = (seconds: number) => Math.max(0, seconds - wait) / size;
    const reading = beyond(await read(size));
    const writing = beyond(
      await secondsOf(async () => {
        device.write(buffer, 0, bytes);
        await device.read([{ buffer, offset: 0, size: 4 }]);
      }),
    );
    const copying = await secondsOf(() => shared.set(bytes)) / size;
    return count * wait + broughtBytes * (reading + copying) + takenBytes * (writing + copying);
  } finally {
    device.destroyBuffer(buffer);
  }
}

async function secondsOf(work: () => unknown): Promise<number> {
  const start = performance.now();
  await work();
  return (performance.now() - start) / 1000;
}
