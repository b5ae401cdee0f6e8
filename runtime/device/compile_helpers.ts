/** How threads share the work of compiling kernels. */
import { sharedBytes } from "../../platform/mod.ts";

/** More kernels than there are. */
const MANY = 2 ** 30;

/** What a compute pipeline is made from. */
export interface KernelCode {
  /** Name of the kernel in profiles and messages. */
  readonly label: string;
  /** Text of the kernel. */
  readonly wgsl: string;
  /** Bindings of the kernel's only group, in order. */
  readonly bindings: readonly GPUBufferBindingLayout[];
}

/** Threads that compile for a device: drivers keep what they compiled for all devices of a process, or on the disk. */
export interface CompileHelpers {
  /**
   * Compiles kernels of the list until none is left.
   *
   * @param turns whose kernel is next, and how many are done; see {@linkcode Turns}
   * @returns when all threads are done, whatever became of them
   */
  compile(kernels: readonly KernelCode[], turns: Turns): Promise<void>;
}

/** Which kernel of a list is to be compiled next, shared among threads. */
export class Turns {
  /** Memory to be sent to another thread. */
  readonly shared: ArrayBufferLike;
  readonly #counts: Int32Array;

  /** Begins with the first kernel, or goes on with what the thread that began has shared. */
  constructor(shared = sharedBytes(8)) {
    this.shared = shared;
    this.#counts = new Int32Array(shared);
  }

  /** Place of the kernel to compile now; may lie behind the end of the list. */
  take(): number {
    return Atomics.add(this.#counts, 0, 1);
  }

  /** Says that one is compiled. */
  finish(): void {
    Atomics.add(this.#counts, 1, 1);
  }

  /** Kernels that are compiled. */
  get finished(): number {
    return Atomics.load(this.#counts, 1);
  }

  /** Whether a list of so many kernels has one left to take. */
  isOver(kernels: number): boolean {
    return Atomics.load(this.#counts, 0) >= kernels;
  }

  /** Leaves nothing to take. */
  stop(): void {
    Atomics.store(this.#counts, 0, MANY);
  }
}
