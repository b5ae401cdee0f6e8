/** Running programs one after the other without letting the GPU idle in Deno's waits. */
import type { Device } from "./device.ts";
import { cancelledError, type Program, type RunControl, throwIfCancelled } from "./program.ts";

/** One step of a sequence: programs that run together, and what happens on this side around them. */
export interface Run {
  /** Run in this order; without any, the step is passed over, `before` and `finished` too. */
  readonly programs: readonly Program[];
  /** Right before the first submit: the place to write inputs. */
  readonly before?: () => void;
  /** When the GPU has finished all of it. */
  readonly finished?: () => void;
}

interface Submit {
  send(): void;
  finished(): void;
}

/**
 * Runs a sequence to its end. While this thread sleeps in the wait for one submit, the GPU already works on the
 * next one; inputs of the next run are written in between.
 *
 * @param runs drawn one ahead of the GPU
 * @throws {DOMException} `AbortError` when cancelled; what was submitted is finished by then
 */
export async function runSequence(
  device: Device,
  runs: Iterable<Run>,
  control: RunControl = {},
): Promise<void> {
  throwIfCancelled(control);
  const submits = submitsOf(device, runs);
  let current = submits.next().value;
  current?.send();
  while (current) {
    const upcoming = submits.next().value;
    const done = current;
    let isCancelled = false;
    await device.wait(() => {
      done.finished();
      isCancelled = control.isCancelled?.() ?? false;
      if (!isCancelled) upcoming?.send();
    });
    if (isCancelled && upcoming) throw cancelledError();
    current = upcoming;
  }
}

/** The submits of a sequence, encoded one ahead. Short programs share the submit of the one before. */
function* submitsOf(device: Device, runs: Iterable<Run>): Generator<Submit, undefined> {
  for (const { programs, before, finished } of runs) {
    const groups: GPUCommandBuffer[][] = [];
    let isFirst = true;
    for (const program of programs) {
      for (let i = 0; i < program.submits.length; i++) {
        const command = program.encode(i);
        if (!isFirst && program.submits.length === 1) groups.at(-1)!.push(command);
        else groups.push([command]);
        isFirst = false;
      }
    }
    for (const [i, commands] of groups.entries()) {
      yield {
        send: () => {
          if (i === 0) before?.();
          device.submit(commands);
        },
        finished: () => {
          if (i === groups.length - 1) finished?.();
        },
      };
    }
  }
  return undefined;
}
