/** A session on the device: all of it as long as it lives, or a stage's programs and weights only while that runs. */
import {
  type Call,
  type Device,
  type DeviceTensor,
  type Executable,
  type ExecutableSet,
  freeHostBytes,
  instantiate,
  type Program,
  type QueuedWork,
  type RunControl,
  SaturationError,
  throwIfCancelled,
  WorkQueue,
} from "../../runtime/mod.ts";
import {
  type Components,
  type Demands,
  demandsOf,
  planResidency,
  type ResidencyOptions,
  type ResidencyPlan,
  type StagePlan,
} from "./residency.ts";
import type { Session, Stage } from "./session.ts";

interface StageWork extends Omit<QueuedWork, "stage" | "before"> {
  /** Whether the work is the last that takes long: what the next stages need is read while it runs. */
  readonly isLast?: boolean;
}

export interface StageQueue {
  /**
   * Queues calls of one stage, which comes onto the device first if it is not there, and returns when the queue has room.
   * Writes alone go with what is queued next.
   */
  run(calls: readonly Call[], work?: StageWork): Promise<void>;
  finish(): Promise<void>;
}

interface Place {
  readonly name: string;
  readonly stage: Stage;
  readonly reads: readonly DeviceTensor[];
}

export class SessionRunner {
  readonly #session: Session;
  readonly #components: Components;
  readonly #places = new Map<Program, Place>();
  readonly #written = new Set<DeviceTensor>();
  #demands: Demands | undefined;
  #plan: ResidencyPlan | undefined;
  #device: Device | undefined;
  #current: { readonly stage: StagePlan; readonly programs: ExecutableSet } | undefined;

  constructor(session: Session, components: Components) {
    this.#session = session;
    this.#components = components;
    const tensors = new Set([
      ...session.tensors,
      ...session.stages.flatMap((own) => [...own.tensors]),
    ]);
    for (const stage of session.stages) {
      for (const [name, program] of stage.programs) {
        const own = new Set(program.graph.written);
        const reads = [...program.graph.deviceTensors]
          .filter((tensor) => tensors.has(tensor) && !own.has(tensor) && !tensor.hasSource);
        this.#places.set(program, { name, stage, reads });
      }
    }
  }

  plan(options: ResidencyOptions): ResidencyPlan {
    this.#demands ??= demandsOf(this.#session, this.#components);
    return planResidency(this.#demands, options);
  }

  /** Takes memory for the session's tensors. When it fails, nothing of the session stays allocated. */
  async allocate(device: Device, plan: ResidencyPlan, control: RunControl = {}): Promise<void> {
    this.#plan = plan;
    this.#device = device;
    this.#free(plan.kept);
    try {
      await device.guarded(() => {
        for (const tensor of plan.state) tensor.allocate(device);
      });
      if (plan.isTogether) await this.#enter(plan.stages[0]!, control);
    } catch (error) {
      this.destroy();
      throw error;
    }
  }

  executable(program: Program): Executable {
    const place = this.#places.get(program);
    if (!place || !this.#current) {
      throw new Error(`Cannot run program "${program.name}": it is not on the device`);
    }
    return this.#current.programs.get(place.name);
  }

  async run<T>(use: (queue: StageQueue) => Promise<T>, control: RunControl = {}): Promise<T> {
    const { device, plan } = this.#allocated();
    const queue = new WorkQueue(device, control);
    const ahead = new ReadAhead(device);
    const writes: Call[] = [];
    const run: StageQueue["run"] = async (queued, work = {}) => {
      const programs = queued.flatMap(({ program }) => (program ? [program] : []));
      if (programs.length === 0) return void writes.push(...queued);
      const calls = [...writes.splice(0), ...queued];
      const { stage } = this.#places.get(programs[0]!)!;
      this.#checkOrder(calls);
      checkReads(stage, work.reads ?? []);
      if (this.#isAway(stage)) {
        await queue.finish();
        queue.meanwhile = undefined;
        await this.#enter(this.#stagePlan(stage), control);
      }
      const isAhead = work.isLast === true && !plan.isTogether;
      await queue.run(programs.map((program) => this.executable(program)), {
        ...this.#watched(work),
        stage: stage.phase,
        before: () => {
          calls.forEach((call) => call.write(device));
          if (isAhead) queue.meanwhile = ahead.pieces(plan, stage);
        },
      });
    };
    try {
      throwIfCancelled(control);
      const result = await use({ run, finish: () => queue.finish() });
      await queue.finish();
      return result;
    } catch (error) {
      await queue.abandon();
      throw error;
    } finally {
      ahead.release();
      for (const tensor of plan.waiting) tensor.unpin();
    }
  }

  /** Refuses programs that read what nothing has written: zeros would look like a result. */
  #checkOrder(calls: readonly Call[]): void {
    for (const { program, written = [] } of calls) {
      for (const tensor of written) this.#written.add(tensor);
      if (!program) continue;
      const missing = this.#places.get(program)!.reads.find((tensor) => !this.#written.has(tensor));
      if (missing) {
        throw new TypeError(
          `Cannot run program "${program.name}": it reads tensor "${missing.name}", which nothing has written; ` +
            "write it, or run the program that does, before",
        );
      }
      for (const tensor of program.graph.written) this.#written.add(tensor);
    }
  }

  #watched({ isLast: _, ...work }: StageWork): Omit<QueuedWork, "stage" | "before"> {
    const { saturation, tensors } = this.#session;
    const { reads = [], finished } = work;
    if (reads.length === 0 || !tensors.has(saturation.counters)) return work;
    return {
      reads: [...reads, saturation.counters],
      finished: (contents) => {
        const counts = contents.at(-1)!;
        const layers = saturation.layersOf(new Uint32Array(counts.buffer, counts.byteOffset));
        if (layers.length > 0) throw new SaturationError(layers);
        finished?.(contents.slice(0, -1));
      },
    };
  }

  #isAway(stage: Stage): boolean {
    const { plan } = this.#allocated();
    return !plan.isTogether && this.#current?.stage.stage !== stage;
  }

  #stagePlan(stage: Stage): StagePlan {
    return this.#allocated().plan.stages.find((planned) => planned.stage === stage)!;
  }

  async #enter(stage: StagePlan, control: RunControl): Promise<void> {
    const { device } = this.#allocated();
    this.#leave();
    this.#free(stage.weights);
    for (const weights of Object.values(this.#components)) {
      await weights.upload(device, () => throwIfCancelled(control), stage.weights);
    }
    try {
      await device.guarded(() => stage.own.forEach((tensor) => tensor.allocate(device)));
      this.#current = { stage, programs: await instantiate(stage.plan, device, control) };
    } catch (error) {
      for (const tensor of stage.own) tensor.destroy();
      throw error;
    }
  }

  #free(kept: ReadonlySet<DeviceTensor>): void {
    const { plan } = this.#allocated();
    const own = new Set(plan.stages.flatMap(({ weights, streamed }) => [...weights, ...streamed]));
    for (const weights of Object.values(this.#components)) {
      weights.destroy({ has: (weight) => kept.has(weight) || !own.has(weight) });
    }
  }

  #leave(): void {
    this.#current?.programs.destroy();
    for (const tensor of this.#current?.stage.own ?? []) {
      tensor.destroy();
      this.#written.delete(tensor);
    }
    this.#current = undefined;
  }

  #allocated(): { readonly plan: ResidencyPlan; readonly device: Device } {
    if (!this.#plan || !this.#device) {
      throw new Error("Cannot run the session: it is not allocated");
    }
    return { plan: this.#plan, device: this.#device };
  }

  destroy(): void {
    this.#written.clear();
    this.#leave();
    for (const tensor of this.#plan?.state ?? []) tensor.destroy();
    this.#plan = undefined;
    this.#device = undefined;
  }
}

function checkReads({ name, reads }: Stage, tensors: readonly DeviceTensor[]): void {
  if (tensors.length === 0) return;
  if (reads.some((declared) => tensors.every((tensor) => declared.includes(tensor)))) return;
  throw new TypeError(
    `Cannot read back ${tensors.map((tensor) => `"${tensor.name}"`).join(", ")}: stage "${name}" ` +
      "has no copy planned for it; declare it with willRead() while tracing",
  );
}

/** Part of the free host memory that is read: the system's cache of the file wants some beside copies. */
const HOST_SHARE = 0.5;

export class ReadAhead {
  readonly #isCopied: boolean;
  readonly #read = new Set<DeviceTensor>();

  constructor({ adapter }: Device) {
    this.#isCopied = !adapter.isUnified;
  }

  *pieces({ stages }: ResidencyPlan, stage: Stage): Generator<void, void> {
    const next = stages.slice(stages.findIndex((planned) => planned.stage === stage) + 1);
    const loop = next.findIndex(({ stage }) => stage.repeats > 1);
    const weights = new Set(
      next.slice(0, loop < 0 ? next.length : loop + 1).flatMap(({ weights }) => [...weights]),
    );
    let room = freeHostBytes() * HOST_SHARE;
    for (const weight of weights) {
      if (weight.isAllocated || weight.hasHostCopy || this.#read.has(weight)) continue;
      room -= weight.byteLength;
      if (room < 0) return;
      weight.readAhead(this.#isCopied);
      this.#read.add(weight);
      yield;
    }
  }

  release(): void {
    for (const weight of this.#read) if (!weight.isPinned) weight.unpin();
    this.#read.clear();
  }
}
