/** The low-rank branches of one product on the device: those of several adapters and layers side by side. */
import {
  type Device,
  type LinearSite,
  type LowRankResidents,
  Resident,
  roundUp,
} from "../../runtime/mod.ts";
import { elementsAs, type StoredElements } from "./elements.ts";
import { toLowRank } from "./low_rank_form.ts";
import type { AdapterTensor, WeightChange } from "./types.ts";

/** A change that is computed beside its layer. */
export interface Branch {
  /** Which adapter it is of: a place in the list of strengths. */
  readonly adapter: number;
  readonly change: WeightChange;
  readonly rank: number;
  /** First and number of the outputs of the product that it adds to. */
  readonly columns: readonly [start: number, count: number];
}

/**
 * See the file comment. Factors keep the file's 16-bit type where all have the same one, and are f32 otherwise.
 * Branches for other outputs get rows of zeros in `up`.
 */
export class PackedLayer {
  /** What graphs use. */
  readonly residents: LowRankResidents;
  readonly #site: LinearSite;
  readonly #branches: readonly Branch[];

  /** Declares the tensors; nothing is allocated or computed. */
  constructor(site: LinearSite, branches: readonly Branch[]) {
    this.#site = site;
    this.#branches = branches;
    const rank = roundUp(branches.reduce((sum, { rank }) => sum + rank, 0), 4);
    const dtype = commonType(branches);
    const name = `low rank ${site.names.join("+")}`;
    this.residents = {
      down: new Resident(`${name} down`, [rank, site.k], dtype),
      up: new Resident(`${name} up`, [site.n, rank], dtype),
      scales: new Resident(`${name} scales`, [rank]),
    };
  }

  /** Device memory in bytes. */
  get byteLength(): number {
    const { down, up, scales } = this.residents;
    return down.byteLength + up.byteLength + scales.byteLength;
  }

  /** Bytes that {@linkcode PackedLayer.upload} needs to work in. */
  get scratchBytes(): number {
    const { down, up } = this.residents;
    return Math.max(down.byteLength, up.byteLength);
  }

  /**
   * Allocates, and queues writes of the factors.
   *
   * @param scratch memory to work in
   * @throws {OutOfMemoryError} when the device has no room
   */
  upload(device: Device, scratch: ArrayBuffer): void {
    const { down, up, scales } = this.residents;
    for (const resident of [down, up, scales]) resident.allocate(device);
    const rank = down.shape[0]!;
    const dtype = down.dtype as AdapterTensor["dtype"];
    const ElementArray = dtype === "f32" ? Float32Array : Uint16Array;
    const { k, taps, n } = this.#site;
    const forms = this.#branches.map(({ change }) => toLowRank(change));
    const rows = new ElementArray(scratch, 0, rank * k).fill(0);
    let first = 0;
    for (const [i, { rank }] of this.#branches.entries()) {
      const part = rows.subarray(first * k, (first + rank) * k);
      part.set(elementsAs(dtype, forms[i]!.down));
      if (taps > 1) toChannelsLast(part, k, taps);
      first += rank;
    }
    down.writeBytes(new Uint8Array(scratch, 0, rows.byteLength));
    const columns = new ElementArray(scratch, 0, n * rank).fill(0);
    first = 0;
    for (const [i, branch] of this.#branches.entries()) {
      setColumns(columns, rank, first, branch, elementsAs(dtype, forms[i]!.up));
      first += branch.rank;
    }
    up.writeBytes(new Uint8Array(scratch, 0, columns.byteLength));
  }

  /** Queues a write of the scales: the file's times the strength of each adapter; 0 turns one off. */
  writeStrengths(strengths: readonly number[]): void {
    const { scales } = this.residents;
    const values = new Float32Array(scales.shape[0]!);
    let first = 0;
    for (const { adapter, change, rank } of this.#branches) {
      values.fill(strengths[adapter]! * change.scale, first, first + rank);
      first += rank;
    }
    scales.write(values);
  }

  /** Frees the device memory. */
  destroy(): void {
    for (const resident of Object.values(this.residents)) resident.destroy();
  }
}

/** The type that all factors have, or f32; formed products are f32 anyway. */
function commonType(branches: readonly Branch[]): AdapterTensor["dtype"] {
  const types = new Set(
    branches.flatMap(({ change }) =>
      change.kind === "low-rank" ? [change.down.dtype, change.up.dtype] : ["f32" as const]
    ),
  );
  return types.size === 1 ? [...types][0]! : "f32";
}

/** Rows of [channels, taps] as rows of [taps, channels], in place. */
function toChannelsLast(rows: StoredElements, rowLength: number, taps: number): void {
  const channels = rowLength / taps;
  const row = rows.slice(0, rowLength);
  for (let start = 0; start < rows.length; start += rowLength) {
    row.set(rows.subarray(start, start + rowLength));
    for (let channel = 0; channel < channels; channel++) {
      for (let tap = 0; tap < taps; tap++) {
        rows[start + tap * channels + channel] = row[channel * taps + tap]!;
      }
    }
  }
}

/** Puts `up` of one branch into columns `first …` of the rows that it adds to. */
function setColumns(
  target: StoredElements,
  targetRank: number,
  first: number,
  { rank, columns: [start, count] }: Branch,
  up: StoredElements,
): void {
  if (rank === targetRank) return target.set(up, start * rank);
  for (let row = 0, from = 0; row < count; row++) {
    const to = (start + row) * targetRank + first;
    for (let i = 0; i < rank; i++) target[to + i] = up[from++]!;
  }
}
