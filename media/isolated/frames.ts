/** Messages between a process and the one that started it: a JSON value and bytes. */

/** Lengths of the JSON and of the bytes, big-endian, come first. */
const PREFIX_BYTES = 12;

export interface Frame<T> {
  readonly message: T;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** The beginning of a message, up to its bytes. */
export function frameHead(message: unknown, byteLength: number): Uint8Array<ArrayBuffer> {
  const json = new TextEncoder().encode(JSON.stringify(message));
  const head = new Uint8Array(PREFIX_BYTES + json.length);
  const view = new DataView(head.buffer);
  view.setUint32(0, json.length);
  view.setBigUint64(4, BigInt(byteLength));
  head.set(json, PREFIX_BYTES);
  return head;
}

/** Reads a message; `read` gives exactly so many bytes, or nothing when the stream has ended before the first. */
export async function readFrame<T>(
  read: (length: number) => Promise<Uint8Array<ArrayBuffer> | undefined>,
): Promise<Frame<T> | undefined> {
  const prefix = await read(PREFIX_BYTES);
  if (!prefix) return undefined;
  const view = new DataView(prefix.buffer, prefix.byteOffset);
  const json = await read(view.getUint32(0));
  const length = Number(view.getBigUint64(4));
  const bytes = length === 0 ? new Uint8Array(0) : await read(length);
  if (!json || !bytes) return undefined;
  return { message: JSON.parse(new TextDecoder().decode(json)) as T, bytes };
}
