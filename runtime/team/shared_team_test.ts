import assert from "node:assert/strict";
import type { TeamTask } from "../../tests/fakes/team_rank.ts";
import { failTeam, resetTeam, teamMemory } from "./shared_team.ts";
import { shareBounds } from "./team.ts";

type Answer = { readonly sums?: readonly number[]; readonly failed?: string };
type Meetings = TeamTask["meetings"];

const CHUNK_BYTES = 64;

/** Threads of a team; each answers a task. */
async function withThreads(
  size: number,
  use: (
    ask: (rank: number, meetings: Meetings) => Promise<Answer>,
    memory: ReturnType<typeof teamMemory>,
    cancel: SharedArrayBuffer,
  ) => Promise<void>,
): Promise<void> {
  const memory = teamMemory(size, CHUNK_BYTES);
  const cancel = new SharedArrayBuffer(4);
  const script = new URL("../../tests/fakes/team_rank.ts", import.meta.url);
  const threads = Array.from({ length: size }, () => new Worker(script, { type: "module" }));
  try {
    await use(
      (rank, meetings) =>
        new Promise((resolve) => {
          threads[rank]!.onmessage = ({ data }) => resolve(data);
          threads[rank]!.postMessage({ memory, rank, meetings, cancel } satisfies TeamTask);
        }),
      memory,
      cancel,
    );
  } finally {
    for (const thread of threads) thread.terminate();
  }
}

/** What every rank sums up: bytes of rank r are r + 1, and the first r are omitted. */
function sumOf(size: number, bytes: number): number {
  return Array.from({ length: size }, (_, rank) => (bytes - rank) * (rank + 1))
    .reduce((sum, value) => sum + value, 0);
}

Deno.test("SharedTeam.meet() brings bytes of all threads to all, through as many chunks as they fill", () =>
  withThreads(3, async (ask) => {
    const sizes = [5, 64, 65, 1000, 7, ...new Array(200).fill(130)];
    const meetings = sizes.map((bytes, i) => ({ name: `meeting ${i}`, bytes }));
    const answers = await Promise.all([0, 1, 2].map((rank) => ask(rank, meetings)));
    for (const { sums } of answers) assert.deepEqual(sums, sizes.map((bytes) => sumOf(3, bytes)));
  }));

Deno.test("SharedTeam.meet() fails when another rank fails, is cancelled, or is somewhere else, and works again", () =>
  withThreads(2, async (ask, memory, cancel) => {
    const here = [{ name: "here", bytes: 100 }];
    const waiting = ask(0, here);
    await new Promise((resolve) => setTimeout(resolve, 20));
    failTeam(memory);
    assert.deepEqual(await waiting, { failed: "TeamError" });

    resetTeam(memory);
    const stopping = ask(0, here);
    Atomics.store(new Int32Array(cancel), 0, 1);
    assert.deepEqual(await stopping, { failed: "AbortError" });
    Atomics.store(new Int32Array(cancel), 0, 0);

    resetTeam(memory);
    const apart = await Promise.all([ask(0, here), ask(1, [{ name: "there", bytes: 100 }])]);
    assert.deepEqual(apart, [{ failed: "TeamError" }, { failed: "TeamError" }]);

    resetTeam(memory);
    const heard = await Promise.all([ask(0, here), ask(1, [{ name: "failure", bytes: 100 }])]);
    assert.deepEqual(heard, [{ failed: "heard heed this" }, { failed: "heard heed this" }]);

    resetTeam(memory);
    const together = await Promise.all([ask(0, here), ask(1, here)]);
    for (const { sums } of together) assert.deepEqual(sums, [sumOf(2, 100)]);
  }));

Deno.test("shareBounds() gives shares as equal as can be", () => {
  assert.deepEqual(shareBounds(10, 3), [0, 4, 7, 10]);
  assert.deepEqual(shareBounds(8, 2), [0, 4, 8]);
  assert.deepEqual(shareBounds(1, 2), [0, 1, 1]);
});
