import assert from "node:assert/strict";
import { withCachedFiles } from "./mac_memory.ts";

const MEMORY = { total: 8 * 2 ** 30, available: 2e9, free: 0.1e9 };

const PRINTED = `Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                                6104.
Pages active:                            117920.
Pages inactive:                          115930.
Pages speculative:                         1372.
Pages throttled:                              0.
Pages wired down:                         82240.
Pages purgeable:                           2048.
"Translation faults":                 123456789.
File-backed pages:                       150000.
Anonymous pages:                          85222.
Pages stored in compressor:              310000.
Pages occupied by compressor:            181000.
`;

Deno.test("withCachedFiles() counts free pages, cached files and purgeable ones", () => {
  const { available, total, free } = withCachedFiles(MEMORY, PRINTED);
  assert.equal(available, (6104 + 150000 + 2048) * 16384);
  assert.deepEqual([total, free], [MEMORY.total, MEMORY.free]);
});

Deno.test("withCachedFiles() keeps to the system's number where vm_stat says less, too much or nothing", () => {
  const without = PRINTED.replace(/^File-backed.*\n/m, "");
  const beyond = PRINTED.replace("150000", "99999999");
  for (const printed of ["", without, beyond]) {
    assert.deepEqual(withCachedFiles(MEMORY, printed), MEMORY);
  }
  assert.deepEqual(withCachedFiles({ ...MEMORY, available: 7e9 }, PRINTED).available, 7e9);
});
