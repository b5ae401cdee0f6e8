/** A team of threads of one process, through shared memory in chunks; two areas take turns, so one barrier a chunk is enough. */
import { type RunControl, throwIfCancelled } from "../run_control.ts";
import { type Meeting, NoteError, type Piece, type Team, TeamError } from "./team.ts";

/** Bytes of a rank's area, of which there are two. */
const CHUNK_BYTES = 8 * 1024 * 1024;
const NOTE_BYTES = 16 * 1024;
/** How long a wait lasts before it is looked whether the others are still there, in milliseconds. */
const WAIT_MS = 50;

/** Words of the control area before those of the ranks: whether a rank has failed. */
const FAILED = 0;
const FIRST_WORD = 16;
/** Words of each rank: barriers that it has come to; whether it has ended; for both areas what it says of the meeting. */
const ARRIVED = 0;
const ENDED = 1;
const HEADERS = 2;
/** Words of what is said of a meeting: a hash of its name, chunks, bytes of the note. */
const HEADER_WORDS = 3;
const RANK_WORDS = 16;

/** Memory that the ranks share; plain data, for messages to their threads. */
export interface TeamMemory {
  /** How many ranks there are. */
  readonly size: number;
  /** Bytes of an area. */
  readonly chunkBytes: number;
  /** Who has come how often, and what is said of the meetings. */
  readonly control: SharedArrayBuffer;
  /** Two for each rank. */
  readonly notes: SharedArrayBuffer;
  /** Two for each rank. */
  readonly areas: SharedArrayBuffer;
}

/** Memory for a team of this many ranks. */
export function teamMemory(size: number, chunkBytes = CHUNK_BYTES): TeamMemory {
  return {
    size,
    chunkBytes,
    control: new SharedArrayBuffer((FIRST_WORD + size * RANK_WORDS) * 4),
    notes: new SharedArrayBuffer(size * 2 * NOTE_BYTES),
    areas: new SharedArrayBuffer(size * 2 * chunkBytes),
  };
}

/** Makes the memory ready for another request, while no rank is at work. */
export function resetTeam({ control }: TeamMemory): void {
  new Int32Array(control).fill(0);
}

/** Lets the ranks that wait for another fail. */
export function failTeam({ control, size }: TeamMemory): void {
  const words = new Int32Array(control);
  Atomics.store(words, FAILED, 1);
  for (let rank = 0; rank < size; rank++) Atomics.notify(words, wordOf(rank, ARRIVED));
}

/** A team whose ranks are threads of one process. */
export class SharedTeam implements Team {
  /** See {@linkcode Team.rank}. */
  readonly rank: number;
  /** See {@linkcode Team.size}. */
  readonly size: number;
  readonly #memory: TeamMemory;
  readonly #isBlocking: boolean;
  readonly #control: Int32Array;
  /** Barriers since the memory was made ready. */
  #count = 0;

  /**
   * Takes a seat.
   *
   * @param isBlocking whether the thread sleeps while it waits, as one of its own may; else others of the thread go on
   */
  constructor(memory: TeamMemory, rank: number, isBlocking = true) {
    this.rank = rank;
    this.size = memory.size;
    this.#memory = memory;
    this.#isBlocking = isBlocking;
    this.#control = new Int32Array(memory.control);
  }

  /** Begins a request; {@linkcode resetTeam} was called before. */
  begin(): void {
    this.#count = 0;
  }

  /** Ends a request: who still waits for this rank fails. */
  end(): void {
    Atomics.store(this.#control, wordOf(this.rank, ENDED), 1);
    Atomics.notify(this.#control, wordOf(this.rank, ARRIVED));
  }

  /** See {@linkcode Team.meet}. */
  async meet(
    { name, brought, taken, note }: Meeting,
    control: RunControl,
  ): Promise<Uint8Array<ArrayBuffer>[]> {
    const { chunkBytes } = this.#memory;
    const bytes = brought.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const tag = hash(name);
    this.#announce(tag, Math.ceil(bytes / chunkBytes), note);
    const results = taken.map((pieces) => new Uint8Array(bytesOf(pieces)));
    let notes: string[] = [];
    let chunks = 1;
    for (let chunk = 0; chunk < chunks; chunk++) {
      const parity = this.#count % 2;
      const first = chunk * chunkBytes;
      copyRange(brought, first, this.#area(this.rank, parity));
      await this.#arrive(control);
      if (chunk === 0) {
        const said = Array.from({ length: this.size }, (_, rank) => this.#heard(rank, parity));
        notes = said.map((header) => header.note).filter(Boolean);
        const other = said.findIndex((header) => header.tag !== tag);
        if (other >= 0 && notes.length === 0) {
          throw new TeamError(
            `Cannot go on with "${name}": GPU ${other} of this request is at another place`,
          );
        }
        chunks = Math.max(1, ...said.map((header) => header.chunks));
      }
      taken.forEach((pieces, i) => {
        let to = 0;
        for (const { rank, start, byteLength } of pieces) {
          const from = Math.max(start, first);
          const end = Math.min(start + byteLength, first + chunkBytes);
          if (from < end) {
            const area = this.#area(rank, parity);
            results[i]!.set(area.subarray(from - first, end - first), to + from - start);
          }
          to += byteLength;
        }
      });
    }
    if (notes.length > 0) throw new NoteError(this, notes);
    return results;
  }

  #area(rank: number, parity: number): Uint8Array<SharedArrayBuffer> {
    const { areas, chunkBytes } = this.#memory;
    return new Uint8Array(areas, (rank * 2 + parity) * chunkBytes, chunkBytes);
  }

  #note(rank: number, parity: number): Uint8Array<SharedArrayBuffer> {
    return new Uint8Array(this.#memory.notes, (rank * 2 + parity) * NOTE_BYTES, NOTE_BYTES);
  }

  #announce(tag: number, chunks: number, note: string): void {
    const parity = this.#count % 2;
    const bytes = new TextEncoder().encode(note).subarray(0, NOTE_BYTES);
    this.#note(this.rank, parity).set(bytes);
    [tag, chunks, bytes.byteLength].forEach((value, i) =>
      Atomics.store(this.#control, wordOf(this.rank, HEADERS + parity * HEADER_WORDS + i), value)
    );
  }

  #heard(rank: number, parity: number): { tag: number; chunks: number; note: string } {
    const [tag, chunks, noteBytes] = Array.from(
      { length: HEADER_WORDS },
      (_, i) => Atomics.load(this.#control, wordOf(rank, HEADERS + parity * HEADER_WORDS + i)),
    ) as [number, number, number];
    // Decoders refuse shared memory.
    const bytes = this.#note(rank, parity).slice(0, noteBytes);
    return { tag, chunks, note: new TextDecoder().decode(Uint8Array.from(bytes)) };
  }

  /** Waits until all ranks are at this barrier. */
  async #arrive(control: RunControl): Promise<void> {
    const words = this.#control;
    const count = ++this.#count;
    Atomics.store(words, wordOf(this.rank, ARRIVED), count);
    Atomics.notify(words, wordOf(this.rank, ARRIVED));
    for (let rank = 0; rank < this.size; rank++) {
      const word = wordOf(rank, ARRIVED);
      for (let seen = 0; (seen = Atomics.load(words, word)) < count;) {
        throwIfCancelled(control);
        if (Atomics.load(words, FAILED) !== 0) {
          throw new TeamError("Cannot go on: another GPU of this request has failed");
        }
        const hasEnded = Atomics.load(words, wordOf(rank, ENDED)) !== 0;
        // It may have come meanwhile.
        if (hasEnded && Atomics.load(words, word) < count) {
          throw new TeamError(`Cannot go on: GPU ${rank} of this request has ended before`, true);
        }
        if (this.#isBlocking) Atomics.wait(words, word, seen, WAIT_MS);
        else await new Promise((resolve) => setTimeout(resolve));
      }
    }
  }
}

function wordOf(rank: number, word: number): number {
  return FIRST_WORD + rank * RANK_WORDS + word;
}

function bytesOf(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, { byteLength }) => sum + byteLength, 0);
}

/** Copies what of several things, one behind the other, begins at `start`, as much as the target holds. */
function copyRange(parts: readonly Uint8Array[], start: number, target: Uint8Array): void {
  let offset = -start;
  for (const part of parts) {
    const from = Math.max(0, -offset);
    const end = Math.min(part.byteLength, target.byteLength - offset);
    if (from < end) target.set(part.subarray(from, end), offset + from);
    offset += part.byteLength;
  }
}

/** FNV-1a, 31 bits. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return value >>> 1;
}
