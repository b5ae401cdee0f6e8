/** Limits the memory of WebAssembly: Core Specification 2.0, sections 5.2.2 (LEB128) and 5.5.8 (memory section). */

const MEMORY_SECTION = 5;
const PAGE_BYTES = 65_536;

/** Lowers the most memory of a module: what it asks for beyond that fails, as on a machine without more. */
export function capWasmMemory(
  wasm: Uint8Array<ArrayBuffer>,
  maxBytes: number,
): Uint8Array<ArrayBuffer> {
  let at = 8;
  const read = () => {
    let value = 0;
    for (let shift = 1;; shift *= 128) {
      const byte = wasm[at++]!;
      value += (byte & 127) * shift;
      if (byte < 128) return value;
    }
  };
  while (at < wasm.length) {
    const id = wasm[at++];
    const end = read() + at;
    if (id === MEMORY_SECTION) {
      const [count, flags] = [read(), read()];
      if (count !== 1 || flags !== 1) break;
      read();
      const [start, before] = [at, read()];
      const pages = Math.floor(maxBytes / PAGE_BYTES);
      if (pages >= before) return wasm;
      // The same number of bytes: nothing behind it moves.
      const capped = wasm.slice();
      for (let i = start, left = pages; i < at; i++, left = Math.floor(left / 128)) {
        capped[i] = (left % 128) + (i < at - 1 ? 128 : 0);
      }
      return capped;
    }
    at = end;
  }
  throw new TypeError(
    `Cannot limit the memory of a module to ${maxBytes} bytes: it has no memory of its own with a maximum`,
  );
}
