/** Reading of the protocol buffer wire format, as far as SentencePiece's files need it. */

/** One field of a message: its number, and its value in the wire's own types. */
interface ProtoField {
  readonly number: number;
  /** A varint, a fixed 32-bit float, or bytes; fixed 64-bit fields are left undefined. */
  readonly value: number | Uint8Array | undefined;
}

/** The fields of a message, in order. */
export function* protoFields(bytes: Uint8Array): Generator<ProtoField> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let scale = 1;; scale *= 128) {
      const byte = view.getUint8(at++);
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const tag = varint();
    const number = Math.floor(tag / 8);
    switch (tag % 8) {
      case 0:
        yield { number, value: varint() };
        break;
      case 1:
        at += 8;
        yield { number, value: undefined };
        break;
      case 2: {
        const end = varint() + at;
        if (end > bytes.length) {
          throw new RangeError(`field ${number} ends at byte ${end} of ${bytes.length}`);
        }
        yield { number, value: bytes.subarray(at, end) };
        at = end;
        break;
      }
      case 5:
        yield { number, value: view.getFloat32(at, true) };
        at += 4;
        break;
      default:
        throw new RangeError(`field ${number} at byte ${at} has wire type ${tag % 8}`);
    }
  }
}
