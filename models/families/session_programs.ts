/** The programs of one kind of request on the device, planned together, and the tensors that they share. */
import {
  type Device,
  type Graph,
  instantiate,
  type MemoryPlan,
  planMemory,
  type Program,
  type ProgramSet,
  type Resident,
  type RunControl,
} from "../../runtime/mod.ts";

/** See the file comment. */
export class SessionPrograms {
  readonly plan: MemoryPlan;
  readonly #state: readonly Resident[];
  readonly #readBytes: number;
  #programs: ProgramSet | undefined;

  /**
   * Plans; allocates nothing.
   *
   * @param residents of the session: those that no program uses are left out
   * @param reads sets of tensors that are read back at the same time
   */
  constructor(
    graphs: Readonly<Record<string, Graph>>,
    residents: readonly Resident[],
    reads: readonly (readonly Resident[])[],
  ) {
    this.plan = planMemory(graphs);
    this.#state = residents.filter((resident) => this.plan.residents.has(resident));
    this.#readBytes = Math.max(
      ...reads.map((set) =>
        set.filter((resident) => this.#state.includes(resident))
          .reduce((sum, { byteLength }) => sum + byteLength, 0)
      ),
    );
  }

  /** Bytes that it takes beside the weights, the copy that results are read through included. */
  get byteLength(): number {
    return this.#state.reduce(
      (sum, { byteLength }) => sum + byteLength,
      this.plan.workspaceBytes + this.#readBytes,
    );
  }

  /** A program by the name of its graph; only between `allocate` and `destroy`. */
  get(name: string): Program {
    return this.set.get(name);
  }

  /** All programs; only between `allocate` and `destroy`. */
  get set(): ProgramSet {
    if (!this.#programs) throw new Error("Cannot run the session: it is not allocated");
    return this.#programs;
  }

  /**
   * Takes device memory and compiles. The weights must be on the device. When it fails, nothing stays allocated.
   *
   * @throws {OutOfMemoryError} when the memory does not suffice
   * @throws {DOMException} `AbortError` when cancelled
   */
  async allocate(device: Device, control: RunControl = {}): Promise<void> {
    try {
      await device.guarded(() => {
        for (const resident of this.#state) resident.allocate(device);
      });
      this.#programs = await instantiate(this.plan, device, control);
    } catch (error) {
      this.destroy();
      throw error;
    }
  }

  /** Gives the device memory back. */
  destroy(): void {
    this.#programs?.destroy();
    this.#programs = undefined;
    for (const resident of this.#state) resident.destroy();
  }
}
