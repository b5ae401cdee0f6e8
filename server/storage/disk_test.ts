import { strict as assert } from "node:assert";
import { requireFreeSpace } from "./disk.ts";

Deno.test("requireFreeSpace() leaves 1 GiB, or a twentieth of a small disk", async () => {
  const disk = (bavail: number, blocks: number) => () =>
    Promise.resolve({ bavail, blocks, bsize: 2 ** 20 });
  await requireFreeSpace("x", disk(1024, 1_000_000));
  await assert.rejects(requireFreeSpace("x", disk(1023, 1_000_000)), {
    failure: "storage_failed",
    message: /no space is left on the disk; free some$/,
  });
  await requireFreeSpace("x", disk(5, 100));
  await assert.rejects(requireFreeSpace("x", disk(4, 100)), { failure: "storage_failed" });
});

Deno.test("requireFreeSpace() takes a disk that does not tell for one with room", async () => {
  await requireFreeSpace("/no/such/folder");
  await requireFreeSpace("x", () => Promise.resolve({ bavail: 0, blocks: 0, bsize: 4096 }));
});
