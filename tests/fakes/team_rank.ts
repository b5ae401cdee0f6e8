/** A thread that meets the others of its team, and tells what it took or what went wrong. */
import { type NoteError, SharedTeam, type TeamMemory } from "../../runtime/mod.ts";

const scope = self as unknown as {
  onmessage: (event: MessageEvent<TeamTask>) => void;
  postMessage(answer: unknown): void;
};

/** What a rank shall do. */
export interface TeamTask {
  readonly memory: TeamMemory;
  readonly rank: number;
  /** Meetings, one after the other; each rank brings this many bytes, all of them its rank. */
  readonly meetings: readonly { readonly name: string; readonly bytes: number }[];
  /** Non-zero to cancel. */
  readonly cancel: SharedArrayBuffer;
}

scope.onmessage = async ({ data: { memory, rank, meetings, cancel } }) => {
  const team = new SharedTeam(memory, rank);
  team.begin();
  const flag = new Int32Array(cancel);
  const sums: number[] = [];
  try {
    for (const { name, bytes } of meetings) {
      const pieces = Array.from(
        { length: memory.size },
        (_, rank) => ({ rank, start: rank, byteLength: bytes - rank }),
      );
      const [taken] = await team.meet({
        name,
        brought: [new Uint8Array(bytes - 3).fill(rank + 1), new Uint8Array(3).fill(rank + 1)],
        taken: [pieces],
        note: name === "failure" ? "heed this" : "",
      }, { isCancelled: () => Atomics.load(flag, 0) !== 0 });
      sums.push(taken!.reduce((sum, byte) => sum + byte, 0));
    }
    scope.postMessage({ sums });
  } catch (error) {
    const { name, notes } = error as NoteError;
    scope.postMessage({ failed: notes ? `heard ${notes}` : name });
  }
};
