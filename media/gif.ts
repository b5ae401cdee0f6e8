/** The container of GIF files: GIF89a specification, sections 17 to 27. Deno decodes their pixels. */

import { ImageError } from "./image.ts";

const EXTENSION = 0x21;
const FRAME = 0x2c;
const TRAILER = 0x3b;

/** Bytes of signature and logical screen descriptor. */
const HEAD_BYTES = 13;

/** Bytes of an image descriptor, with the byte that says what it is. */
const DESCRIPTOR_BYTES = 10;

/** Walks the blocks of a GIF file: every frame has to lie on the screen, whose size is that of the image. */
export function scanGif(bytes: Uint8Array): { width: number; height: number; frames: number } {
  if (bytes.length < HEAD_BYTES) throw new ImageError("Cannot read GIF: the file is truncated");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [width, height] = [view.getUint16(6, true), view.getUint16(8, true)];
  if (width < 1 || height < 1) {
    throw new ImageError(`Cannot read GIF: its header gives a size of ${width}x${height}`);
  }
  let frames = 0;
  let offset = HEAD_BYTES + paletteBytes(bytes[10]!);
  while (offset < bytes.length && bytes[offset] !== TRAILER) {
    if (bytes[offset] === EXTENSION) {
      offset = afterSubBlocks(bytes, offset + 2);
    } else if (bytes[offset] === FRAME && offset + DESCRIPTOR_BYTES <= bytes.length) {
      frames++;
      const [left, top, w, h] = [1, 3, 5, 7].map((at) => view.getUint16(offset + at, true));
      if (left! + w! > width || top! + h! > height) {
        throw new ImageError(
          `Cannot read GIF: a frame of ${w}x${h} at (${left}, ${top}) does not lie on its ` +
            `${width}x${height} screen`,
        );
      }
      // One more byte says how long the first codes are.
      offset = afterSubBlocks(
        bytes,
        offset + DESCRIPTOR_BYTES + paletteBytes(bytes[offset + 9]!) + 1,
      );
    } else {
      break;
    }
  }
  if (frames === 0) throw new ImageError("Cannot read GIF: the file has no image in it");
  return { width, height, frames };
}

/** Frames of a GIF file; 0 for one that cannot be read. */
export function countGifFrames(bytes: Uint8Array): number {
  try {
    return scanGif(bytes).frames;
  } catch (error) {
    if (error instanceof ImageError) return 0;
    throw error;
  }
}

/** Bytes of the colour table that flags announce. */
function paletteBytes(flags: number): number {
  return (flags & 0x80) === 0 ? 0 : 3 * 2 ** ((flags & 7) + 1);
}

function afterSubBlocks(bytes: Uint8Array, start: number): number {
  let offset = start;
  while (offset < bytes.length && bytes[offset] !== 0) offset += 1 + bytes[offset]!;
  return offset + 1;
}
