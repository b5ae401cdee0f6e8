/** Exchanges: places in a program where it stops until all ranks of a team have handed each other tensors. */
import type { Device } from "./device.ts";
import { elementCount, type Shape } from "./shape.ts";
import type { Graph } from "./graph.ts";
import type { Saturation } from "./saturation.ts";
import type { Kernel } from "./shaders/kernel.ts";
import type { Piece, Team } from "./team.ts";
import type { Tensor } from "./tensor.ts";
import type { BufferWindow } from "./windows.ts";
import type { RunControl } from "./run_control.ts";

/** What one exchange is. */
export interface Exchange {
  /** Who takes part. */
  readonly team: Team;
  /** Bytes of what is brought, without padding. */
  readonly broughtBytes: readonly number[];
  /** Pieces of what is taken. */
  readonly taken: readonly (readonly Piece[])[];
  /** Whose counters are looked at. */
  readonly saturation: Saturation;
}

/** A tensor that a rank takes: elements of what ranks bring, one piece behind the other. */
export interface TakenTensor {
  /** Name in messages. */
  readonly name: string;
  /** Sizes, outermost first. */
  readonly shape: Shape;
  /** Pieces in elements, counted over all tensors that a rank brings. */
  readonly pieces: readonly {
    readonly rank: number;
    readonly start: number;
    readonly size: number;
  }[];
}

/**
 * Brings tensors to the team, and takes what others bring. The program goes on when all ranks are here.
 *
 * @param name equal for all ranks
 * @param brought f32, of the same graph
 * @param options.areFactors whether what is brought may be stored as f16, as what products alone read; nothing is taken then
 * @throws {TypeError} when something that is brought is no f32
 * @throws {RangeError} when pieces and shape differ in size
 */
export function exchange(
  graph: Graph,
  team: Team,
  name: string,
  brought: readonly Tensor[],
  taken: readonly TakenTensor[],
  { areFactors = false }: { readonly areFactors?: boolean } = {},
): Tensor[] {
  for (const tensor of brought) {
    if (tensor.dtype === "f32") continue;
    throw new TypeError(`Cannot exchange ${tensor}: only f32 is exchanged`);
  }
  const results = taken.map(({ name, shape, pieces }) => {
    const size = pieces.reduce((sum, { size }) => sum + size, 0);
    if (size === elementCount(shape)) return graph.tensor(name, shape);
    throw new RangeError(
      `Cannot exchange "${name}": its pieces have ${size} elements, its shape ${
        elementCount(shape)
      }`,
    );
  });
  const buffers = {
    ...Object.fromEntries(brought.map((tensor, i) => [`brought${i}`, tensor])),
    ...Object.fromEntries(results.map((tensor, i) => [`taken${i}`, tensor])),
  };
  graph.dispatch({
    kernel: exchangeKernel(name, brought.length, taken.length),
    ...{ buffers, params: {}, workgroups: [1, 1, 1] },
    ...(areFactors && { factors: brought.map((_, i) => `brought${i}`) }),
    exchange: {
      team,
      broughtBytes: brought.map(({ size }) => size * 4),
      taken: taken.map(({ pieces }) =>
        pieces.map(({ rank, start, size }) => ({ rank, start: start * 4, byteLength: size * 4 }))
      ),
      saturation: graph.saturation,
    },
  });
  return results;
}

/** Stands for what no kernel does. */
function exchangeKernel(name: string, brought: number, taken: number): Kernel {
  const slots = (count: number, name: string, access: "read" | "read_write") =>
    Array.from({ length: count }, (_, i) => ({ name: `${name}${i}`, access, width: 1 as const }));
  return {
    name,
    buffers: [...slots(brought, "brought", "read"), ...slots(taken, "taken", "read_write")],
    ...{ params: {}, workgroupSize: [1, 1, 1], body: "" },
  };
}

/** An exchange whose tensors have memory. */
export interface PreparedExchange extends Exchange {
  /** Name in messages; equal for all ranks. */
  readonly label: string;
  /** Memory of what is brought. */
  readonly brought: readonly (readonly BufferWindow[])[];
  /** Memory of what is taken. */
  readonly results: readonly (readonly BufferWindow[])[];
}

/**
 * Runs an exchange after all that was submitted: reads what is brought, and writes what is taken.
 *
 * @throws {NoteError} on every rank when a factor of one of them was beyond f16, with the layers as JSON
 */
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
