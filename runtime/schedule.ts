/** Running programs one after the other without letting the GPU idle in Deno's waits. */
import type { Device } from "./device.ts";
import { cancelledError, type Program, type RunControl, throwIfCancelled } from "./program.ts";
import type { Resident } from "./resident.ts";
import { elementCount } from "./shape.ts";

/** One step of a sequence: programs that run together, and what happens on this side around them. */
export interface Run {
  /** Run in this order; without any, the step is passed over, `before` and `finished` too. */
  readonly programs: readonly Program[];
  /** Runs of one stage that are short together are waited for together. */
  readonly stage?: string;
  /** Right before the first submit: the place to write inputs. */
  readonly before?: () => void;
  /** f32 tensors to read back when the GPU has finished all of it. */
  readonly reads?: readonly Resident[];
  /**
   * When the GPU has finished all of it, with what was read. Without reads it comes as soon as the next submits may go
   * out: through Dawn, whose waits do not block, the GPU may still be at work then.
   */
  readonly finished?: (contents: readonly Float32Array<ArrayBuffer>[]) => void;
}

interface Submit {
  readonly stage: string | undefined;
  /** Part of a submit's budget. */
  readonly cost: number;
  readonly reads: readonly Resident[];
  /** Queues the writes of streamed weights that come into use with it. */
  readonly load?: () => void;
  send(): void;
  finished(contents: readonly Float32Array<ArrayBuffer>[]): void;
}

/**
 * Runs a sequence to its end. While this thread sleeps in the wait for some submits, the GPU already works on the
 * next ones; inputs of the next runs are written in between. As many submits share a wait as one submit's budget
 * holds, for a wait takes as long as many short ones. A segment of streamed weights has a wait of its own, so that
 * WebGPU's copies of what is queued stay as small as two segments; it is read while the GPU works on the one before.
 *
 * @param runs drawn ahead of the GPU
 * @throws {DOMException} `AbortError` when cancelled; what was submitted is finished by then
 */
export async function runSequence(
  device: Device,
  runs: Iterable<Run>,
  control: RunControl = {},
): Promise<void> {
  throwIfCancelled(control);
  const groups = groupsOf(submitsOf(device, runs));
  let current = groups.next().value;
  current?.forEach((submit) => submit.load?.());
  current?.forEach((submit) => submit.send());
  while (current) {
    const upcoming = groups.next().value;
    // Before the wait: Deno's blocks this thread, and the writes wait in the queue behind what is at work.
    await loadAll(device, upcoming);
    const last = current.at(-1)!;
    const others = last.reads.length > 0 ? current.slice(0, -1) : current;
    let isCancelled = false;
    const next = () => {
      for (const submit of others) submit.finished([]);
      isCancelled = control.isCancelled?.() ?? false;
      if (!isCancelled) upcoming?.forEach((submit) => submit.send());
    };
    if (last.reads.length > 0) last.finished(await readAll(device, last.reads, next));
    else await device.wait(next);
    if (isCancelled && upcoming) throw cancelledError();
    current = upcoming;
  }
}

/** Reads the streamed weights of the next submits; when that fails, what was submitted before is finished first. */
async function loadAll(device: Device, submits: readonly Submit[] = []): Promise<void> {
  try {
    for (const { load } of submits) load?.();
  } catch (error) {
    await device.wait();
    throw error;
  }
}

/** What may share a wait. */
function* groupsOf(submits: Iterable<Submit>): Generator<Submit[], undefined> {
  let group: Submit[] = [];
  let cost = 0;
  for (const submit of submits) {
    const last = group.at(-1);
    const joins = last && last.reads.length === 0 && last.stage !== undefined &&
      last.stage === submit.stage && !submit.load && cost + submit.cost <= 1;
    if (last && !joins) {
      yield group;
      group = [];
      cost = 0;
    }
    group.push(submit);
    cost += submit.cost;
  }
  if (group.length > 0) yield group;
  return undefined;
}

/**
 * The submits of a sequence. Short programs share the submit of the one before. Each is encoded when it is drawn and
 * not before: WebGPU holds 0.1 MB for every command buffer that waits, and keeps that for the device's life.
 */
function* submitsOf(device: Device, runs: Iterable<Run>): Generator<Submit, undefined> {
  for (const { programs, stage, before, reads = [], finished } of runs) {
    const groups: { encoders: (() => GPUCommandBuffer)[]; cost: number; load?: () => void }[] = [];
    for (const program of programs) {
      program.submits.forEach((_, i) => {
        const encode = () => program.encode(i);
        const cost = program.costs[i]!;
        const last = groups.at(-1);
        if (program.segmentFrom(i)) {
          groups.push({ encoders: [encode], cost, load: () => program.loadWeights(i) });
        } else if (last && program.submits.length === 1) {
          last.encoders.push(encode);
          last.cost += cost;
        } else groups.push({ encoders: [encode], cost });
      });
    }
    for (const [i, { encoders, cost, load }] of groups.entries()) {
      const commands = encoders.map((encode) => encode());
      const isLast = i === groups.length - 1;
      yield {
        stage,
        cost,
        reads: isLast ? reads : [],
        ...(load && { load }),
        send: () => {
          if (i === 0) before?.();
          device.submit(commands);
        },
        finished: (contents) => {
          if (isLast) finished?.(contents);
        },
      };
    }
  }
  return undefined;
}

async function readAll(
  device: Device,
  residents: readonly Resident[],
  next: () => void,
): Promise<Float32Array<ArrayBuffer>[]> {
  const bytes = await device.read(residents.flatMap(({ windows }) => windows), next);
  let start = 0;
  return residents.map(({ byteLength, shape }) => {
    const values = new Float32Array(bytes.buffer, start, elementCount(shape));
    start += byteLength;
    return values;
  });
}
