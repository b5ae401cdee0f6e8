import assert from "node:assert/strict";
import { capWasmMemory } from "./wasm_memory.ts";

/** A module that exports a memory of 1 to 32768 pages, with a custom section before and after. */
const MODULE = Uint8Array.of(
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
  ...[0, 3, 1, 0x61, 0],
  ...[5, 6, 1, 1, 1, 0x80, 0x80, 2],
  ...[7, 5, 1, 1, 0x6d, 2, 0],
  ...[0, 3, 1, 0x62, 0],
);

function pagesOf(wasm: Uint8Array<ArrayBuffer>): number {
  const memory = new WebAssembly.Instance(new WebAssembly.Module(wasm)).exports["m"];
  let pages = 1;
  try {
    for (; pages < 200; pages++) (memory as WebAssembly.Memory).grow(1);
  } catch {
    // That was all.
  }
  return pages;
}

Deno.test("capWasmMemory() lets a module have no more", () => {
  assert.equal(pagesOf(MODULE), 200);
  for (const pages of [1, 16, 150]) {
    assert.equal(pagesOf(capWasmMemory(MODULE, pages * 65_536)), pages);
  }
  assert.equal(capWasmMemory(MODULE, 2 ** 31), MODULE, "it has no more by itself");
});

Deno.test("capWasmMemory() refuses a module without a memory of its own", () => {
  assert.throws(() => capWasmMemory(MODULE.slice(0, 13), 65_536), TypeError);
});
