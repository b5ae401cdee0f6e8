/** A visible character per byte of UTF-8. Source: the reversible byte mapping of GPT-2 (Radford et al. 2019). */

const CHARACTER_OF_BYTE: readonly string[] = byteCharacters();
const BYTE_OF_CHARACTER: ReadonlyMap<string, number> = new Map(
  CHARACTER_OF_BYTE.map((character, byte) => [character, byte]),
);

function byteCharacters(): string[] {
  const isPrintable = (byte: number) =>
    byte >= 0x21 && byte <= 0x7e || byte >= 0xa1 && byte <= 0xff && byte !== 0xad;
  let next = 0x100;
  return Array.from(
    { length: 256 },
    (_, byte) => String.fromCharCode(isPrintable(byte) ? byte : next++),
  );
}

/** The characters of a text's bytes; each is one UTF-16 code unit. */
export function toByteCharacters(text: string): string {
  let result = "";
  for (const byte of new TextEncoder().encode(text)) result += CHARACTER_OF_BYTE[byte];
  return result;
}

/** The bytes that the characters of a piece stand for; of another character, those of its own UTF-8. */
export function bytesOfCharacters(piece: string): number[] {
  return [...piece].flatMap((character) => {
    const byte = BYTE_OF_CHARACTER.get(character);
    return byte === undefined ? [...new TextEncoder().encode(character)] : [byte];
  });
}

/** All characters that stand for bytes, in the order in which byte-level vocabularies begin with them. */
export function byteAlphabet(): string[] {
  return CHARACTER_OF_BYTE.toSorted();
}
