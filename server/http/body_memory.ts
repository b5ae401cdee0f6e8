/** How much memory the bodies of requests take together. */

import { ApiError } from "../contract/errors.ts";
import { Shares } from "../fair_share.ts";

/** Bytes of each body that do not count: most bodies are no longer, and those are never refused. */
const FREE_BYTES = 64 * 1024;

/** Share of the memory that one client's bodies may have: whoever sends slowly holds it for half an hour. */
const SHARE_OF_ONE = 0.75;

/** What the bodies of all requests share. */
export class BodyMemory {
  readonly #maxBytes: number;
  readonly #held = new Shares();

  /** @param maxBytes most bytes of all bodies together */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes that are held now. */
  get heldBytes(): number {
    return this.#held.all;
  }

  /** The part of one request, which has to be released. */
  open(client: string): BodyShare {
    let length = 0;
    let isReleased = false;
    const counted = () => Math.max(0, length - FREE_BYTES);
    const release = () => {
      if (!isReleased) this.#held.add(client, -counted());
      isReleased = true;
    };
    return {
      grow: (bytes) => {
        const before = counted();
        length = Math.max(length, bytes);
        const more = counted() - before;
        if (isReleased || more === 0) return;
        this.#held.add(client, more);
        const isOfOne = this.#held.of(client) > this.#maxBytes * SHARE_OF_ONE;
        if (this.#held.all <= this.#maxBytes && !isOfOne) return;
        // At once, so that the others may go on.
        release();
        throw tooMany();
      },
      release,
    };
  }
}

/** The part of one request. */
export interface BodyShare {
  /**
   * Takes memory for a body.
   *
   * @throws {ApiError} 503 when all bodies together hold too much; this one counts no more then
   */
  grow(bytes: number): void;
  /** Gives all of it back; may be called more than once. */
  release(): void;
}

function tooMany(): ApiError {
  return new ApiError(
    503,
    "Cannot read the body: too many large ones come at the same time; send it again in a while",
    { code: "too_many_bodies", headers: { "retry-after": "5" } },
  );
}
