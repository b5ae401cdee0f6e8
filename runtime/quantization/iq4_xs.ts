import type { BlockFormat } from "./block_format.ts";
import { IQ4_VALUES } from "./iq4_nl.ts";

/** Elements of a block and of one of its 8 parts. */
const ELEMENTS = 256;
const PART = 32;
/** Bytes of d and the scales. */
const HEADER_BYTES = 8;

/**
 * Blocks of 256 in 8 parts of 32: f16 d, high bits of S in a `u16`, two for each part, low bits of S in a nibble for each
 * part, 128 bytes q. Byte 16p + l has element l of part p in its low half and element 16 + l in its high half; an element is
 * (d · (S − 32)) · VALUES[q], with the values of `iq4_nl`.
 */
export const IQ4_XS: BlockFormat = {
  name: "iq4_xs",
  blockElements: ELEMENTS,
  blockBytes: HEADER_BYTES + ELEMENTS / 2,
  groupBlocks: 2,
  headerBytes: 0,
  scaleRun: 8,
  decodeBlock(block, values) {
    const d = block.getFloat16(0, true);
    const high = block.getUint16(2, true);
    const low = block.getUint32(4, true);
    for (let part = 0; part < ELEMENTS / PART; part++) {
      const scale = ((low >>> (4 * part)) & 15) | (((high >> (2 * part)) & 3) << 4);
      const factor = Math.fround(d * (scale - 32));
      for (let l = 0; l < PART / 2; l++) {
        const q = block.getUint8(HEADER_BYTES + part * PART / 2 + l);
        values[part * PART + l] = factor * IQ4_VALUES[q & 15]!;
        values[part * PART + PART / 2 + l] = factor * IQ4_VALUES[q >> 4]!;
      }
    }
  },
};
