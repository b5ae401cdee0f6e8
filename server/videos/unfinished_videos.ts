/** Files of videos that are being written, for those who watch meanwhile. */

import { setTimeout } from "node:timers/promises";

/** How often a file that has not grown is looked at again, in milliseconds. */
const LOOK_MS = 100;
/** How many such looks there are for each question whether there is still something to come. */
const LOOKS_PER_QUESTION = 10;
/** Bytes that are read at a time. */
const CHUNK_BYTES = 64 * 1024;

/** A file that grows until its writing ends. */
interface UnfinishedFile {
  readonly path: string;
  state: "written" | "whole" | "given up";
}

/** Knows the files that this process writes in fragments, by job and output. */
export class UnfinishedVideos {
  readonly #files = new Map<string, UnfinishedFile>();

  /** Says that a file is being written, which may not be there yet; the result is told how it ended, before the file is moved. */
  begin(job: string, index: number, path: string): (isWhole: boolean) => void {
    const key = keyOf(job, index);
    const file: UnfinishedFile = { path, state: "written" };
    this.#files.set(key, file);
    return (isWhole) => {
      file.state = isWhole ? "whole" : "given up";
      if (this.#files.get(key) === file) this.#files.delete(key);
    };
  }

  /** The bytes of a file as they are written, an error where it is given up; nothing when it `isOver` before one came. */
  async follow(
    job: string,
    index: number,
    { isOver, signal }: { readonly isOver: () => Promise<boolean>; readonly signal: AbortSignal },
  ): Promise<ReadableStream<Uint8Array<ArrayBuffer>> | undefined> {
    for (let looks = 0;; looks++) {
      const file = this.#files.get(keyOf(job, index));
      const opened = file && await Deno.open(file.path).catch(() => undefined);
      if (opened) return follow(file, opened);
      if (!file && looks % LOOKS_PER_QUESTION === 0 && await isOver()) return undefined;
      await setTimeout(LOOK_MS, undefined, { signal });
    }
  }
}

function follow(
  file: UnfinishedFile,
  opened: Deno.FsFile,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let isStopped = false;
  return new ReadableStream({
    async pull(controller) {
      try {
        for (;;) {
          // Looked at before: what is written by then is read below.
          const { state } = file;
          const chunk = new Uint8Array(CHUNK_BYTES);
          const length = await opened.read(chunk);
          if (isStopped) return;
          if (length) return controller.enqueue(chunk.subarray(0, length));
          if (state === "given up") {
            throw new Error("Cannot send the rest of the video: its job failed or was cancelled");
          }
          if (state === "whole") {
            opened.close();
            return controller.close();
          }
          await setTimeout(LOOK_MS);
          if (isStopped) return;
        }
      } catch (error) {
        if (isStopped) return;
        isStopped = true;
        opened.close();
        controller.error(error);
      }
    },
    cancel() {
      isStopped = true;
      opened.close();
    },
  }, { highWaterMark: 0 });
}

function keyOf(job: string, index: number): string {
  return `${job} ${index}`;
}
