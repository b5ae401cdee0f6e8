/** Where a form ends (RFC 2046, section 5.1.1): what follows the closing boundary is no part of it, and may never come. */

import { Buffer } from "node:buffer";

/** Longest boundary in characters; the RFC allows 70. */
const MAX_LENGTH = 200;

/** The boundary of such as `multipart/form-data; boundary=abc`; undefined where none can be used. */
export function readBoundary(contentType: string): string | undefined {
  const match = /;\s*boundary\s*=\s*(?:"([^"]*)"|([^\s;"]*))/i.exec(contentType);
  const boundary = match?.[1] ?? match?.[2] ?? "";
  const isUsable = /^[ !#-[\]-~]+$/.test(boundary) && boundary.length <= MAX_LENGTH;
  return isUsable ? boundary : undefined;
}

/** Looks for the closing boundary in a body that comes in pieces. */
export class ClosingBoundary {
  readonly #needle: Buffer;
  /** The last bytes before the next piece; a form may begin with its closing boundary. */
  #tail: Uint8Array = Buffer.from("\r\n");

  constructor(boundary: string) {
    this.#needle = Buffer.from(`\r\n--${boundary}--`);
  }

  /** How many of the next piece's bytes belong to the form, where it ends there. */
  push(chunk: Uint8Array): number | undefined {
    const joined = Buffer.concat([this.#tail, chunk]);
    const at = joined.indexOf(this.#needle);
    if (at >= 0) return at + this.#needle.length - this.#tail.length;
    this.#tail = joined.subarray(-(this.#needle.length - 1));
    return undefined;
  }
}
