/**
 * The program that decodes and encodes images apart from the one that asks for it: reads tasks from standard input, and
 * writes answers to standard output, until its input ends.
 */

import { frameHead, readFrame } from "./frames.ts";
import { type ImageReply, type ImageTask, performImageTask } from "./image_tasks.ts";

/** Runs the program. */
export async function runImageProgram(): Promise<void> {
  for (;;) {
    const frame = await readFrame<ImageTask>(readInput);
    if (!frame) return;
    const { reply, bytes } = await answer(frame.message, frame.bytes);
    write(frameHead(reply, bytes.length));
    write(bytes);
  }
}

async function answer(
  task: ImageTask,
  given: Uint8Array<ArrayBuffer>,
): Promise<{ reply: ImageReply; bytes: Uint8Array }> {
  try {
    const { result, bytes } = await performImageTask(task, given);
    return { reply: { result }, bytes };
  } catch (thrown) {
    const { name, message } = thrown instanceof Error ? thrown : new Error(String(thrown));
    return { reply: { error: { name, message } }, bytes: new Uint8Array(0) };
  }
}

/** Nothing else goes on here, so that waiting may block. */
function readInput(length: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const bytes = new Uint8Array(length);
  for (let filled = 0; filled < length;) {
    const count = Deno.stdin.readSync(bytes.subarray(filled));
    if (count === null) return Promise.resolve(undefined);
    filled += count;
  }
  return Promise.resolve(bytes);
}

function write(bytes: Uint8Array): void {
  for (let written = 0; written < bytes.length;) {
    written += Deno.stdout.writeSync(bytes.subarray(written));
  }
}

if (import.meta.main) await runImageProgram();
