/** SentencePiece's precompiled normalization rules: a Darts double array of byte sequences and their replacements. */

import { checkTextLength } from "./text_limit.ts";

// A byte order mark is a character like others here.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();

interface CharsmapMatch {
  readonly length: number;
  readonly replacement: Uint8Array;
}

/**
 * At every position the longest rule applies, as in SentencePiece; Hugging Face's `tokenizers` (0.23.3) takes the shortest
 * for a whole grapheme cluster of fewer than 6 bytes and drops the rest of the cluster.
 */
export class Charsmap {
  readonly #units: Uint32Array;
  readonly #targets: Uint8Array;

  /** Parses the value of `precompiled_charsmap`, decoded from base64 where it was in JSON. */
  constructor(blob: Uint8Array) {
    const view = new DataView(blob.buffer, blob.byteOffset, blob.byteLength);
    const size = blob.byteLength >= 4 ? view.getUint32(0, true) : 0;
    if (size === 0 || size % 4 !== 0 || 4 + size > blob.byteLength) {
      throw new TypeError(
        `Cannot read precompiled_charsmap: ${blob.byteLength} bytes hold no double array of ${size}`,
      );
    }
    this.#units = Uint32Array.from({ length: size / 4 }, (_, i) => view.getUint32(4 + 4 * i, true));
    this.#targets = blob.subarray(4 + size);
  }

  match(bytes: Uint8Array, start: number): CharsmapMatch | undefined {
    const units = this.#units;
    let node = offsetOf(units[0]!);
    let length = 0;
    let target = 0;
    for (let i = start; i < bytes.length; i++) {
      node ^= bytes[i]!;
      const unit = units[node];
      if (unit === undefined || (unit & 0x800000ff) !== bytes[i]) break;
      node ^= offsetOf(unit);
      if ((unit & 0x100) !== 0) {
        length = i + 1 - start;
        target = (units[node] ?? 0) & 0x7fffffff;
      }
    }
    if (length === 0) return undefined;
    const end = this.#targets.indexOf(0, target);
    const replacement = this.#targets.subarray(target, end === -1 ? undefined : end);
    return { length, replacement };
  }

  normalize(text: string): string {
    const bytes = encoder.encode(text);
    const out = new ByteSink(bytes.length);
    let at = 0;
    while (at < bytes.length) {
      const match = this.match(bytes, at);
      if (match === undefined) {
        const end = at + characterLength(bytes[at]!);
        out.append(bytes.subarray(at, end));
        at = end;
      } else {
        out.append(match.replacement);
        at += match.length;
      }
    }
    return out.toString();
  }
}

export function characterLength(first: number): number {
  return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

function offsetOf(unit: number): number {
  return (unit >>> 10) << ((unit & 0x200) >>> 6);
}

/** Bytes of one UTF-16 code unit in UTF-8, at most. */
const MAX_CHARACTER_BYTES = 3;

export class ByteSink {
  #bytes: Uint8Array;
  #length = 0;

  constructor(capacity: number) {
    this.#bytes = new Uint8Array(Math.max(64, capacity));
  }

  append(bytes: Uint8Array): void {
    checkTextLength((this.#length + bytes.length) / MAX_CHARACTER_BYTES);
    if (this.#length + bytes.length > this.#bytes.length) {
      const grown = new Uint8Array(2 * (this.#length + bytes.length));
      grown.set(this.#bytes.subarray(0, this.#length));
      this.#bytes = grown;
    }
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  toString(): string {
    return decoder.decode(this.#bytes.subarray(0, this.#length));
  }
}
