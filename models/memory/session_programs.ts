/**
 * The programs of one kind of request on the device, and the tensors that they share. A session that is kept together
 * has all its programs and weights on the device as long as it lives. Otherwise a stage's programs, and the weights
 * that no other stage keeps, are there only while it runs.
 */
import {
  type Device,
  instantiate,
  type Program,
  type ProgramSet,
  type Resident,
  type Run,
  type RunControl,
  runSequence,
  throwIfCancelled,
} from "../../runtime/mod.ts";
import {
  type Demands,
  demandsOf,
  planResidency,
  type ResidencyOptions,
  type ResidencyPlan,
  type StagePlan,
} from "./residency.ts";
import type { SessionMemory, StageRuns } from "./stage.ts";

/** See the file comment. */
export class SessionPrograms {
  /** What the session is made of. */
  readonly memory: SessionMemory;
  #demands: Demands | undefined;
  #plan: ResidencyPlan | undefined;
  #device: Device | undefined;
  #current: { readonly stage: StagePlan; readonly programs: ProgramSet } | undefined;

  /** Nothing is planned or allocated yet. */
  constructor(memory: SessionMemory) {
    this.memory = memory;
  }

  /** Where everything would lie within a budget; see {@linkcode planResidency}. */
  plan(options: ResidencyOptions): ResidencyPlan {
    this.#demands ??= demandsOf(this.memory);
    return planResidency(this.#demands, options);
  }

  /**
   * Takes memory for the session's tensors. When it fails, nothing of the session stays allocated.
   *
   * @throws {OutOfMemoryError} when the memory does not suffice
   * @throws {SyntaxError} when weights cannot be read
   * @throws {DOMException} `AbortError` when cancelled
   */
  async allocate(device: Device, plan: ResidencyPlan, control: RunControl = {}): Promise<void> {
    this.#plan = plan;
    this.#device = device;
    this.#free(plan.kept);
    try {
      await device.guarded(() => {
        for (const resident of plan.state) resident.allocate(device);
      });
      if (plan.isTogether) await this.#enter(plan.stages[0]!, control);
    } catch (error) {
      this.destroy();
      throw error;
    }
  }

  /** A program by the name of its graph; only while its stage runs. */
  get(name: string): Program {
    if (!this.#current) {
      throw new Error(`Cannot run program "${name}": the session is not allocated`);
    }
    return this.#current.programs.get(name);
  }

  /**
   * Runs stages one after the other. Between stages that are not kept together the GPU stands still: what one of them
   * leaves makes room for what the next one needs.
   *
   * @throws {SyntaxError} when weights cannot be read
   * @throws {DOMException} `AbortError` when cancelled; what was submitted is finished by then
   */
  async run(stages: Iterable<StageRuns>, control: RunControl = {}): Promise<void> {
    const { plan, device } = this.#allocated();
    if (plan.isTogether) return await runSequence(device, allRuns(stages), control);
    for (const { stage, runs } of stages) {
      const planned = plan.stages.find((other) => other.stage.name === stage);
      if (!planned) throw new RangeError(`Cannot run stage "${stage}": the session has none`);
      await this.#enter(planned, control);
      await runSequence(device, runs(), control);
    }
  }

  /** Brings a stage's weights and programs onto the device, after those of the last one have left. */
  async #enter(stage: StagePlan, control: RunControl): Promise<void> {
    const { device } = this.#allocated();
    if (this.#current?.stage === stage) return;
    this.#leave();
    this.#free(stage.weights);
    for (const weights of Object.values(this.memory.components)) {
      await weights.upload(device, () => throwIfCancelled(control), stage.weights);
    }
    this.#current = { stage, programs: await instantiate(stage.plan, device, control) };
  }

  /** Frees the session's weights but those that are kept. */
  #free(kept: ReadonlySet<Resident>): void {
    const { plan } = this.#allocated();
    const own = new Set(plan.stages.flatMap(({ weights, streamed }) => [...weights, ...streamed]));
    for (const weights of Object.values(this.memory.components)) {
      weights.destroy({ has: (weight) => kept.has(weight) || !own.has(weight) });
    }
  }

  #leave(): void {
    this.#current?.programs.destroy();
    this.#current = undefined;
  }

  #allocated(): { readonly plan: ResidencyPlan; readonly device: Device } {
    if (!this.#plan || !this.#device) {
      throw new Error("Cannot run the session: it is not allocated");
    }
    return { plan: this.#plan, device: this.#device };
  }

  /** Gives the session's memory back; weights stay where they are. */
  destroy(): void {
    this.#leave();
    for (const resident of this.#plan?.state ?? []) resident.destroy();
    this.#plan = undefined;
    this.#device = undefined;
  }
}

function* allRuns(stages: Iterable<StageRuns>): Generator<Run> {
  for (const { runs } of stages) yield* runs();
}
