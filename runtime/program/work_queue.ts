/** Running executables one after the other without letting the GPU idle in Deno's waits. */
import type { Device } from "../device/device.ts";
import type { Executable } from "./executable.ts";
import type { DeviceTensor } from "../device/device_tensor.ts";
import { type PreparedExchange, runExchange } from "./run_exchange.ts";
import { cancelledError, type RunControl, throwIfCancelled } from "../run_control.ts";
import { elementCount } from "../shape.ts";

/** What happens on this side around queued executables. */
export interface QueuedWork {
  /** Work of one stage that is short together is waited for together. */
  readonly stage?: string;
  /** Right before the first submit: the place to write inputs. */
  readonly before?: () => void;
  /** f32 tensors to read back when the GPU has finished all of it. */
  readonly reads?: readonly DeviceTensor[];
  /**
   * When the GPU has finished all of it, with what was read. Without reads it comes as soon as the next submits may go
   * out: through Dawn, whose waits do not block, the GPU may still be at work then.
   */
  readonly finished?: (contents: readonly Float32Array<ArrayBuffer>[]) => void;
}

interface Submit {
  readonly commands: readonly GPUCommandBuffer[];
  /** Writes the inputs, where it is the first of its executables. */
  readonly before: (() => void) | undefined;
  readonly stage: string | undefined;
  /** Part of a submit's budget. */
  readonly cost: number;
  readonly reads: readonly DeviceTensor[];
  /** Queues the writes of streamed weights that come into use with it. */
  readonly load?: () => void;
  /** Exchange in place of commands. */
  readonly exchange?: PreparedExchange;
  finished(contents: readonly Float32Array<ArrayBuffer>[]): void;
}

/**
 * Work for the GPU, in order. While this thread sleeps in the wait for some submits, the GPU already works on the next
 * ones. Many submits share a wait, because a wait costs 10 ms in Deno: as much work as the device's pacer has room for.
 * A segment of streamed weights has a wait of its own, so that WebGPU's copies of what is queued stay as small as two
 * segments; it is read while the GPU works on the one before.
 */
export class WorkQueue {
  /** What this thread does while the GPU is at work, piece by piece; what is not done when the GPU is, may be left. */
  meanwhile: Iterator<unknown> | undefined;
  readonly #device: Device;
  readonly #control: RunControl;
  /** Submits that the GPU works on. */
  #sent: readonly Submit[] = [];
  /** Encoded, to be sent as soon as those are finished. */
  #next: Submit[] = [];
  /** When the GPU began with what is at work, in milliseconds; nothing where that is not known. */
  #begun: number | undefined;

  /** Empty at first. */
  constructor(device: Device, control: RunControl = {}) {
    this.#device = device;
    this.#control = control;
  }

  /**
   * Queues executables, and comes back when the queue has room for more. Without any, nothing happens: `before` and
   * `finished` are not called either.
   *
   * @throws {DOMException} `AbortError` when cancelled; what was submitted is finished by then
   */
  async run(executables: readonly Executable[], work: QueuedWork = {}): Promise<void> {
    for (const submit of submitsOf(executables, work)) {
      if (submit.exchange) {
        await this.#exchange(submit, submit.exchange);
        continue;
      }
      if (this.#next.length > 0 && !this.#joins(submit)) await this.#advance();
      this.#next.push(submit);
    }
  }

  /**
   * Waits until everything that was queued is finished.
   *
   * @throws {DOMException} `AbortError` when cancelled before all of it was submitted
   */
  async finish(): Promise<void> {
    while (this.#sent.length > 0 || this.#next.length > 0) await this.#advance();
  }

  /** Forgets what was not submitted yet, and waits for the rest; nothing of it is read or reported. */
  async abandon(): Promise<void> {
    this.#next = [];
    if (this.#sent.length === 0) return;
    this.#sent = [];
    await this.#device.wait();
  }

  /** Runs an exchange after all that is queued. */
  async #exchange(submit: Submit, exchange: PreparedExchange): Promise<void> {
    while (this.#next.length > 0) await this.#advance();
    // What is sent shares the wait of the exchange's own read-back, but for what is read after it.
    if (this.#sent.at(-1)?.reads.length) await this.#advance();
    throwIfCancelled(this.#control);
    const sent = this.#sent;
    this.#sent = [];
    this.#begun = undefined;
    submit.before?.();
    await runExchange(this.#device, exchange, this.#control);
    for (const { finished } of sent) finished([]);
    submit.finished(submit.reads.length > 0 ? await readAll(this.#device, submit.reads) : []);
  }

  /** Sends what is next, after a wait for what was sent before. */
  async #advance(): Promise<void> {
    const [sent, next] = [this.#sent, this.#next];
    this.#next = [];
    // Before the wait: Deno's blocks this thread, and the writes wait in the queue behind what is at work.
    for (const { load } of next) load?.();
    const { pacer } = this.#device;
    if (sent.length === 0) {
      throwIfCancelled(this.#control);
      this.#begun = pacer.now();
      return this.#send(next);
    }
    this.#doMeanwhile();
    const last = sent.at(-1)!;
    const others = last.reads.length > 0 ? sent.slice(0, -1) : sent;
    let isCancelled = false;
    const proceed = () => {
      this.#sent = [];
      for (const submit of others) submit.finished([]);
      isCancelled = next.length > 0 && (this.#control.isCancelled?.() ?? false);
      if (!isCancelled) this.#send(next);
    };
    if (last.reads.length > 0) {
      last.finished(await readAll(this.#device, last.reads, proceed));
      this.#begun = undefined;
    } else await this.#waitFor(sent, proceed);
    if (isCancelled) throw cancelledError();
  }

  #doMeanwhile(): void {
    if (!this.meanwhile) return;
    const { pacer } = this.#device;
    const end = pacer.now() + MEANWHILE_MS;
    do {
      if (this.meanwhile.next().done) this.meanwhile = undefined;
    } while (this.meanwhile && pacer.now() < end);
    // The wait says nothing of the GPU then.
    this.#begun = undefined;
  }

  /** Waits, and tells the pacer how long the work took. */
  async #waitFor(sent: readonly Submit[], proceed: () => void): Promise<void> {
    const { pacer, adapter } = this.#device;
    const begun = this.#begun;
    let ended: number | undefined;
    await this.#device.wait(() => {
      // Deno's wait comes back when the GPU is finished, and sleeps then; Dawn's comes back at once.
      if (adapter.backend === "deno") ended = pacer.now();
      proceed();
    });
    ended ??= pacer.now();
    this.#begun = ended;
    if (begun === undefined) return;
    pacer.record(costOf(sent), (ended - begun) / 1000);
  }

  /** Hands submits to the GPU: those between two writes at once. */
  #send(submits: readonly Submit[]): void {
    this.#sent = submits;
    let commands: GPUCommandBuffer[] = [];
    for (const submit of submits) {
      if (submit.before && commands.length > 0) {
        this.#device.submit(commands);
        commands = [];
      }
      submit.before?.();
      commands.push(...submit.commands);
    }
    if (commands.length > 0) this.#device.submit(commands);
  }

  /** Whether a submit may share the wait of those that are next. */
  #joins({ stage, load, cost }: Submit): boolean {
    const last = this.#next.at(-1)!;
    return last.reads.length === 0 && stage !== undefined && last.stage === stage && !load &&
      costOf(this.#next) + cost <= this.#device.pacer.room;
  }
}

/** How long this thread does something else before a wait, in milliseconds: about as long as the work that it waits for. */
const MEANWHILE_MS = 50;

/** One step of a sequence. */
export interface Run extends QueuedWork {
  /** Run in this order. */
  readonly programs: readonly Executable[];
}

/**
 * Runs a sequence to its end; see {@linkcode WorkQueue}.
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
  const queue = new WorkQueue(device, control);
  try {
    for (const { programs, ...work } of runs) await queue.run(programs, work);
    await queue.finish();
  } catch (error) {
    await queue.abandon();
    throw error;
  }
}

function costOf(submits: readonly Submit[]): number {
  return submits.reduce((sum, { cost }) => sum + cost, 0);
}

/** Short executables share a submit. Each is encoded when it is drawn: WebGPU keeps 0.1 MB for every command buffer that waits. */
function* submitsOf(
  executables: readonly Executable[],
  { stage, before, reads = [], finished }: QueuedWork,
): Generator<Submit, undefined> {
  const groups: {
    encoders: (() => GPUCommandBuffer)[];
    cost: number;
    load?: () => void;
    exchange?: PreparedExchange;
  }[] = [];
  for (const executable of executables) {
    executable.submits.forEach((_, i) => {
      const encode = () => executable.encode(i);
      const cost = executable.costs[i]!;
      const last = groups.at(-1);
      const exchange = executable.exchanges.get(i);
      if (exchange) groups.push({ encoders: [], cost: 0, exchange });
      else if (executable.segmentFrom(i)) {
        groups.push({ encoders: [encode], cost, load: () => executable.loadWeights(i) });
      } else if (last && !last.exchange && executable.submits.length === 1) {
        last.encoders.push(encode);
        last.cost += cost;
      } else groups.push({ encoders: [encode], cost });
    });
  }
  for (const [i, { encoders, cost, load, exchange }] of groups.entries()) {
    const commands = encoders.map((encode) => encode());
    const isLast = i === groups.length - 1;
    yield {
      commands,
      before: i === 0 ? before : undefined,
      stage,
      cost,
      reads: isLast ? reads : [],
      ...(load && { load }),
      ...(exchange && { exchange }),
      finished: (contents) => {
        if (isLast) finished?.(contents);
      },
    };
  }
  return undefined;
}

async function readAll(
  device: Device,
  tensors: readonly DeviceTensor[],
  next?: () => void,
): Promise<Float32Array<ArrayBuffer>[]> {
  const bytes = await device.read(tensors.flatMap(({ windows }) => windows), next);
  let start = 0;
  return tensors.map(({ byteLength, shape }) => {
    const values = new Float32Array(bytes.buffer, start, elementCount(shape));
    start += byteLength;
    return values;
  });
}
