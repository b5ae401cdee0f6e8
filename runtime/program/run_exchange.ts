/** Exchanges while a program runs. */
import type { Device } from "../device/device.ts";
import type { Exchange } from "../graph/graph.ts";
import type { RunControl } from "../run_control.ts";
import type { BufferWindow } from "../windows.ts";

/** An exchange whose tensors have memory. */
export interface PreparedExchange extends Exchange {
  /** Name in messages; equal for all ranks. */
  readonly label: string;
  /** Memory of what is brought. */
  readonly brought: readonly (readonly BufferWindow[])[];
  /** Memory of what is taken. */
  readonly results: readonly (readonly BufferWindow[])[];
}

/** Runs an exchange after all that was submitted: reads what is brought, and writes what is taken. */
export async function runExchange(
  device: Device,
  { team, label, brought, broughtBytes, taken, results, saturation }: PreparedExchange,
  control: RunControl,
): Promise<void> {
  const { counters } = saturation;
  const counted = counters.isAllocated ? counters.windows : [];
  const windows = [...brought.flat(), ...counted];
  const bytes = windows.length > 0 ? await device.read(windows) : new Uint8Array();
  let end = 0;
  const parts = brought.map((windows, i) => {
    const start = end;
    end += sizeOf(windows);
    return bytes.subarray(start, start + broughtBytes[i]!);
  });
  const counts = new Uint32Array(bytes.slice(end).buffer);
  const layers = counted.length > 0 ? saturation.layersOf(counts) : [];
  const note = layers.length > 0 ? JSON.stringify(layers) : "";
  const received = await team.meet({ name: label, brought: parts, taken, note }, control);
  received.forEach((bytes, i) => {
    let start = 0;
    for (const { buffer, offset, size } of results[i]!) {
      const part = bytes.subarray(start, start + size);
      if (part.byteLength > 0) device.write(buffer, offset, part);
      start += size;
    }
  });
}

function sizeOf(windows: readonly BufferWindow[]): number {
  return windows.reduce((sum, { size }) => sum + size, 0);
}
