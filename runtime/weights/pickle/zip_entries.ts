/** Entries of a zip archive, as PyTorch stores its files: not compressed. Source: PKWARE's APPNOTE.TXT, 4.3 to 4.5. */
import type { FileSource } from "../../../platform/mod.ts";
import { quoted } from "./values.ts";

/** A file in an archive. */
export interface ZipEntry {
  readonly name: string;
  readonly byteLength: number;
  /** Where its local header begins. */
  readonly headerOffset: number;
  readonly isStored: boolean;
}

const [END, END_BYTES, MAX_COMMENT] = [0x06054b50, 22, 0xffff];
const [END_64, END_64_BYTES] = [0x06064b50, 56];
const [LOCATOR_64, LOCATOR_64_BYTES] = [0x07064b50, 20];
const [ENTRY, ENTRY_BYTES] = [0x02014b50, 46];
const [LOCAL, LOCAL_BYTES] = [0x04034b50, 30];
/** Stands for a number that the 64-bit fields have. */
const IN_64 = 0xffffffff;
/** Bytes of the directory; that of a file of ten thousand tensors has one million. */
const MAX_DIRECTORY_BYTES = 16 * 1024 * 1024;

/** Reads the directory at the end of an archive. Throws `SyntaxError` with the end of a sentence. */
export function readZipEntries(file: FileSource): Map<string, ZipEntry> {
  const { start, byteLength, count } = findDirectory(file);
  if (byteLength > MAX_DIRECTORY_BYTES) {
    throw new SyntaxError(
      `its directory has ${byteLength} bytes, the limit is ${MAX_DIRECTORY_BYTES}`,
    );
  }
  const view = read(file, start, byteLength);
  const entries = new Map<string, ZipEntry>();
  let place = 0;
  for (let i = 0; i < count; i++) {
    checkRoom(view, place, ENTRY_BYTES, ENTRY);
    const [nameBytes, extraBytes, commentBytes] = [28, 30, 32]
      .map((at) => view.getUint16(place + at, true)) as [number, number, number];
    const end = place + ENTRY_BYTES + nameBytes + extraBytes + commentBytes;
    if (end > view.byteLength) throw damaged();
    const nameStart = view.byteOffset + place + ENTRY_BYTES;
    const name = new TextDecoder().decode(new Uint8Array(view.buffer, nameStart, nameBytes));
    if (entries.has(name)) throw new SyntaxError(`it has two files called ${quoted(name)}`);
    const sizes = {
      byteLength: view.getUint32(place + 24, true),
      headerOffset: view.getUint32(place + 42, true),
    };
    const stored = view.getUint32(place + 20, true);
    const extra = place + ENTRY_BYTES + nameBytes;
    const method = view.getUint16(place + 10, true);
    entries.set(name, {
      name,
      isStored: method === 0,
      ...wide(view, extra, extra + extraBytes, sizes, stored),
    });
    place = end;
  }
  return entries;
}

/** First byte of an entry's data, which lies behind a header of its own. */
export function dataOffset(file: FileSource, entry: ZipEntry): number {
  const { name, byteLength, headerOffset, isStored } = entry;
  if (!isStored) {
    throw new SyntaxError(`${quoted(name)} in it is compressed, which PyTorch never does`);
  }
  const header = read(file, headerOffset, LOCAL_BYTES);
  checkRoom(header, 0, LOCAL_BYTES, LOCAL);
  const start = headerOffset + LOCAL_BYTES + header.getUint16(26, true) +
    header.getUint16(28, true);
  if (start + byteLength > file.size) {
    throw new SyntaxError(`${quoted(name)} in it ends beyond the file, which is cut off`);
  }
  return start;
}

function findDirectory(file: FileSource) {
  const size = file.size;
  const tailBytes = Math.min(size, END_BYTES + MAX_COMMENT + LOCATOR_64_BYTES);
  const tail = read(file, size - tailBytes, tailBytes);
  for (let at = tailBytes - END_BYTES; at >= 0; at--) {
    if (tail.getUint32(at, true) !== END) continue;
    const own = {
      count: tail.getUint16(at + 10, true),
      byteLength: tail.getUint32(at + 12, true),
      start: tail.getUint32(at + 16, true),
    };
    const locator = at - LOCATOR_64_BYTES;
    const isWide = locator >= 0 && tail.getUint32(locator, true) === LOCATOR_64;
    if (!isWide) return own;
    const wide = read(file, number64(tail, locator + 8), END_64_BYTES);
    checkRoom(wide, 0, END_64_BYTES, END_64);
    return {
      count: number64(wide, 32),
      byteLength: number64(wide, 40),
      start: number64(wide, 48),
    };
  }
  throw new SyntaxError("it is a zip archive without the directory at its end, so it is cut off");
}

/** Sizes of large archives, which stand in an extra field in this order, each only where it is needed. */
function wide(
  view: DataView,
  start: number,
  end: number,
  sizes: { readonly byteLength: number; readonly headerOffset: number },
  stored: number,
) {
  let { byteLength, headerOffset } = sizes;
  for (let at = start; at + 4 <= end;) {
    const [id, length] = [view.getUint16(at, true), view.getUint16(at + 2, true)];
    if (at + 4 + length > end) throw damaged();
    if (id === 1) {
      let field = at + 4;
      const next = () => {
        if (field + 8 > at + 4 + length) throw damaged();
        field += 8;
        return number64(view, field - 8);
      };
      if (byteLength === IN_64) byteLength = next();
      if (stored === IN_64) next();
      if (headerOffset === IN_64) headerOffset = next();
    }
    at += 4 + length;
  }
  return { byteLength, headerOffset };
}

function number64(view: DataView, at: number): number {
  const value = Number(view.getBigUint64(at, true));
  if (!Number.isSafeInteger(value)) throw damaged();
  return value;
}

function read(file: FileSource, start: number, count: number): DataView {
  if (!(start >= 0 && start + count <= file.size)) throw damaged();
  const bytes = new Uint8Array(count);
  file.read(start, bytes);
  return new DataView(bytes.buffer);
}

function checkRoom(view: DataView, at: number, count: number, sign: number): void {
  if (at + count > view.byteLength || view.getUint32(at, true) !== sign) throw damaged();
}

function damaged(): SyntaxError {
  return new SyntaxError("its directory contradicts the file, which is damaged or cut off");
}
