/**
 * How much work a JSON text is before it is parsed: parsing holds up every other request, and takes
 * its time for each value rather than for each byte.
 *
 * @module
 */

/** Most bytes of a kind. Those of the first come with each value, that of the second with each escape. */
const LIMITS: readonly (readonly [characters: string, most: number])[] = [
  ["[{,:", 50_000],
  ["\\", 1_000_000],
];

/** The kind of each byte, counted from 1; 0 for those that do not count. */
const KINDS = new Uint8Array(256);
for (const [index, [characters]] of LIMITS.entries()) {
  for (const character of characters) KINDS[character.charCodeAt(0)] = index + 1;
}

/** Counts what makes a text slow to parse, piece by piece. */
export class JsonTally {
  readonly #counts = new Float64Array(LIMITS.length + 1);

  /**
   * Counts a piece.
   *
   * @param piece bytes of the text
   * @returns what there is too much of, in words; undefined while it is not
   */
  add(piece: Uint8Array): string | undefined {
    for (let at = 0; at < piece.length; at++) this.#counts[KINDS[piece[at]!]!]!++;
    for (const [index, [characters, most]] of LIMITS.entries()) {
      if (this.#counts[index + 1]! > most) {
        return `it has more than ${most} of the characters ${characters}`;
      }
    }
    return undefined;
  }
}
