import { WAITS_NEED_NUDGE } from "../../platform/mod.ts";
import type { GpuBackend } from "./backends/backend.ts";
import type { CompileHelpers, KernelCode } from "./compile_helpers.ts";
import { DeviceLostError, GpuValidationError, OutOfMemoryError } from "../errors.ts";
import { roundUp } from "../shape.ts";
import { Pacer } from "./pacer.ts";
import type { Target } from "../target.ts";
import type { BufferWindow } from "../windows.ts";

/** Bytes of queued writes after which the queue is flushed: wgpu keeps a staging copy of each until then. */
const FLUSH_BYTES = 64 * 1024 * 1024;
/** Largest piece handed to one `writeBuffer`; bigger ones are slower. */
const WRITE_CHUNK_BYTES = 8 * 1024 * 1024;

/** Pipelines that are kept, used last: a software adapter takes 2 to 4 MB for each, and every number of bindings has its own. */
const KEPT_PIPELINES = { software: 128, gpu: 1024 };

interface CompiledPipeline {
  readonly pipeline: GPUComputePipeline;
  /** Counted over the device's life. */
  readonly number: number;
}

/** What the adapter says of itself. */
export interface AdapterDescription {
  /** Marketing name, as the driver gives it. */
  readonly name: string;
  /** The maker: PCI id in decimal, or a name; as the WebGPU implementation gives it. */
  readonly vendor: string;
  /** Name and version of the driver; empty where the WebGPU implementation does not tell. */
  readonly driver: string;
  /** The WebGPU implementation. */
  readonly backend: GpuBackend;
  /** Whether the adapter computes on the CPU. */
  readonly isSoftware: boolean;
  /** Whether the device takes the system's memory and has none of its own. */
  readonly isUnified: boolean;
}

/** Things created since the device was opened; tests compare two readings. */
export interface DeviceCounters {
  /** Compute pipelines compiled. */
  pipelines: number;
  /** Bind groups made. */
  bindGroups: number;
  /** Storage and uniform buffers allocated; those of read-backs do not count. */
  buffers: number;
  /** Calls of submit. */
  submits: number;
  /** Waits for the GPU. */
  waits: number;
}

/** How long the news of a loss may take behind the first failure. */
const LOSS_MS = 2000;

/**
 * One open GPU: the only place that allocates buffers, compiles pipelines, submits and waits.
 *
 * WebGPU waits block the calling thread in Deno, so a device belongs in a worker.
 */
export class Device {
  /** The WebGPU device underneath. */
  readonly gpuDevice: GPUDevice;
  /** Which adapter it is. */
  readonly adapter: AdapterDescription;
  /** What was created so far. */
  readonly counters: DeviceCounters = {
    pipelines: 0,
    bindGroups: 0,
    buffers: 0,
    submits: 0,
    waits: 0,
  };
  /** Resolves with the reason when the device is lost; never rejects. */
  readonly lost: Promise<DeviceLostError>;
  /** How much work goes between two waits. */
  readonly pacer: Pacer;
  /** Threads that compile kernels for it, where there are any. */
  helpers: CompileHelpers | undefined;
  #target: Target;
  readonly #maxBytes: number;
  /** Pipelines by source; the one used last is the last. */
  readonly #pipelines = new Map<string, CompiledPipeline>();
  #allocatedBytes = 0;
  #peakBytes = 0;
  #unflushedBytes = 0;
  #failure: Error | undefined;

  /** Use `openDevice`. */
  constructor(
    gpuDevice: GPUDevice,
    target: Target,
    adapter: AdapterDescription,
    maxBytes: number,
    pacer: Pacer = new Pacer(),
  ) {
    this.gpuDevice = gpuDevice;
    this.pacer = pacer;
    this.#target = target;
    this.adapter = adapter;
    this.#maxBytes = maxBytes;
    gpuDevice.addEventListener("uncapturederror", (event) => {
      event.preventDefault();
      this.#failure ??= typedError((event as GPUUncapturedErrorEvent).error, 0);
    });
    this.lost = gpuDevice.lost.then((info) => {
      const error = new DeviceLostError(
        `Cannot go on with the GPU "${adapter.name}": the device was lost (${info.reason}${
          info.message ? `: ${info.message}` : ""
        }); try again, and update its driver if this happens often`,
      );
      this.#failure = error;
      return error;
    });
  }

  /** What kernels are chosen for. */
  get target(): Target {
    return this.#target;
  }

  /** Lets what is traced from now on use what a tuning run on this adapter measured. */
  applyTuning({ choices }: Pick<Target, "choices">): void {
    this.#target = { ...this.#target, choices };
  }

  /**
   * Device memory taken at present, in bytes: buffers, and the copies that read-backs go through. Not in it are
   * compiled pipelines and what WebGPU itself holds for queued writes, at most 64 MiB until the next submit.
   */
  get allocatedBytes(): number {
    return this.#allocatedBytes;
  }

  /** The most device memory that was taken at once since the last {@linkcode Device.resetPeak}, in bytes. */
  get peakBytes(): number {
    return this.#peakBytes;
  }

  /** Starts the measurement of {@linkcode Device.peakBytes} again. */
  resetPeak(): void {
    this.#peakBytes = this.#allocatedBytes;
  }

  /** Bytes that may be taken in all; `Infinity` without a budget. */
  get maxBytes(): number {
    return this.#maxBytes;
  }

  /** Bytes that may still be taken; `Infinity` without a budget. */
  get availableBytes(): number {
    return this.#maxBytes - this.#allocatedBytes;
  }

  /**
   * Throws what went wrong on the device since the last check.
   *
   * @throws {DeviceLostError} {@linkcode OutOfMemoryError} {@linkcode GpuValidationError}
   */
  check(): void {
    const failure = this.#failure;
    if (!failure) return;
    if (!(failure instanceof DeviceLostError)) this.#failure = undefined;
    throw failure;
  }

  /**
   * Allocates a zeroed storage buffer.
   *
   * @param byteLength a multiple of 4
   * @throws {OutOfMemoryError} when the byte budget does not hold it
   */
  createBuffer(
    label: string,
    byteLength: number,
    usage: GPUBufferUsageFlags = STORAGE_USAGE,
  ): GPUBuffer {
    const buffer = this.#allocate(label, byteLength, usage);
    this.counters.buffers++;
    return buffer;
  }

  #allocate(label: string, byteLength: number, usage: GPUBufferUsageFlags): GPUBuffer {
    if (byteLength > this.availableBytes) {
      throw new OutOfMemoryError(
        `Cannot allocate ${byteLength} bytes for "${label}": ${this.availableBytes} of the budget of ${this.#maxBytes} bytes are left`,
        byteLength,
        this.availableBytes,
      );
    }
    const buffer = this.gpuDevice.createBuffer({ label, size: byteLength, usage });
    this.#allocatedBytes += byteLength;
    this.#peakBytes = Math.max(this.#peakBytes, this.#allocatedBytes);
    return buffer;
  }

  /** Frees a buffer of {@linkcode Device.createBuffer} at once. */
  destroyBuffer(buffer: GPUBuffer): void {
    this.#allocatedBytes -= buffer.size;
    buffer.destroy();
  }

  /** Whether a kernel is compiled. */
  hasPipeline(wgsl: string): boolean {
    return this.#pipelines.has(wgsl);
  }

  /** The pipeline of a kernel, compiled on first use. */
  pipeline({ label, wgsl, bindings }: KernelCode): GPUComputePipeline {
    const cached = this.#pipelines.get(wgsl);
    if (cached) {
      this.#pipelines.delete(wgsl);
      this.#pipelines.set(wgsl, cached);
      return cached.pipeline;
    }
    const module = this.gpuDevice.createShaderModule({ label, code: wgsl });
    const group = this.gpuDevice.createBindGroupLayout({
      label,
      entries: bindings.map((buffer, binding) => ({ binding, visibility: COMPUTE, buffer })),
    });
    const pipeline = this.gpuDevice.createComputePipeline({
      label,
      layout: this.gpuDevice.createPipelineLayout({ label, bindGroupLayouts: [group] }),
      compute: { module, entryPoint: "main" },
    });
    this.#pipelines.set(wgsl, { pipeline, number: this.counters.pipelines++ });
    const [oldest] = this.#pipelines.keys();
    if (this.#pipelines.size > this.#keptPipelines) this.#pipelines.delete(oldest!);
    return pipeline;
  }

  /** Creates a bind group; counted. */
  bindGroup(descriptor: GPUBindGroupDescriptor): GPUBindGroup {
    this.counters.bindGroups++;
    return this.gpuDevice.createBindGroup(descriptor);
  }

  /**
   * Runs `create` under error scopes and throws what WebGPU reports, else what `create` throws.
   *
   * @throws {OutOfMemoryError} {@linkcode GpuValidationError}
   */
  async guarded<T>(create: () => T): Promise<T> {
    this.gpuDevice.pushErrorScope("out-of-memory");
    this.gpuDevice.pushErrorScope("validation");
    const bytesBefore = this.#allocatedBytes;
    const pipelinesBefore = this.counters.pipelines;
    try {
      return create();
    } finally {
      const requestedBytes = this.#allocatedBytes - bytesBefore;
      const [validation, memory] = await this.#unlessLost(async () => [
        await this.gpuDevice.popErrorScope(),
        await this.gpuDevice.popErrorScope(),
      ]);
      if (memory) this.#failure ??= typedError(memory, requestedBytes);
      if (validation) this.#failure ??= typedError(validation, 0);
      // A pipeline made meanwhile may be the invalid one: it must not be found in the cache again.
      if (memory || validation) this.#forgetPipelines(pipelinesBefore);
      // Throws over what `create` threw: WebGPU's report is the cause, the exception its consequence.
      this.check();
    }
  }

  get #keptPipelines(): number {
    return this.adapter.isSoftware ? KEPT_PIPELINES.software : KEPT_PIPELINES.gpu;
  }

  #forgetPipelines(firstNumber: number): void {
    for (const [wgsl, { number }] of this.#pipelines) {
      if (number >= firstNumber) this.#pipelines.delete(wgsl);
    }
  }

  /** Queues a write; data is copied before the call returns. Offsets and sizes are multiples of 4. */
  write(buffer: GPUBuffer, byteOffset: number, bytes: Uint8Array): void {
    for (let start = 0; start < bytes.byteLength; start += WRITE_CHUNK_BYTES) {
      const chunk = bytes.subarray(start, start + WRITE_CHUNK_BYTES);
      this.gpuDevice.queue.writeBuffer(
        buffer,
        byteOffset + start,
        chunk as Uint8Array<ArrayBuffer>,
      );
      this.#unflushedBytes += chunk.byteLength;
      if (this.#unflushedBytes >= FLUSH_BYTES) this.flush();
    }
  }

  /** Fills ranges of buffers with zeros, in the order of submits. */
  clear(windows: readonly BufferWindow[]): void {
    const encoder = this.gpuDevice.createCommandEncoder({ label: "clear" });
    for (const { buffer, offset, size } of windows) encoder.clearBuffer(buffer, offset, size);
    this.submit([encoder.finish()]);
  }

  /** Hands queued writes to the GPU: wgpu's waits do not. */
  flush(): void {
    this.#unflushedBytes = 0;
    this.gpuDevice.queue.submit([]);
  }

  /** Submits finished command buffers. */
  submit(commands: GPUCommandBuffer[]): void {
    this.counters.submits++;
    this.#unflushedBytes = 0;
    this.gpuDevice.queue.submit(commands);
  }

  /**
   * Waits until everything submitted so far is finished.
   *
   * Deno's wait blocks until then and afterwards sleeps for 10 ms, Dawn's does not block; `next` runs when the wait
   * is registered, so that the GPU can go on with the next submit without this thread.
   */
  async wait(next?: () => void): Promise<void> {
    this.counters.waits++;
    const finished = this.#nudged(this.gpuDevice.queue.onSubmittedWorkDone());
    try {
      next?.();
    } finally {
      await this.#unlessLost(() => finished);
    }
    this.check();
  }

  /**
   * Reads ranges of buffers back, concatenated. One wait.
   *
   * @param next runs once the ranges are copied, as in {@linkcode Device.wait}
   * @throws {OutOfMemoryError} when the byte budget does not hold a copy of the ranges
   */
  async read(
    windows: readonly BufferWindow[],
    next?: () => void,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const total = windows.reduce((sum, window) => sum + window.size, 0);
    const result = new Uint8Array(total);
    const staging: GPUBuffer[] = [];
    try {
      const encoder = this.gpuDevice.createCommandEncoder({ label: "read-back" });
      for (const { buffer, offset, size } of windows) {
        const bytes = roundUp(size, 4);
        const copy = this.#allocate("read-back", bytes, STAGING_USAGE);
        staging.push(copy);
        encoder.copyBufferToBuffer(buffer, offset, copy, 0, bytes);
      }
      this.submit([encoder.finish()]);
      this.counters.waits++;
      const mapped = this.#nudged(
        Promise.allSettled(staging.map((buffer) => buffer.mapAsync(MAP_READ))),
      );
      try {
        next?.();
      } finally {
        await mapped;
      }
      const results = await mapped;
      await this.#unlessLost(() => {
        const failed = results.find(({ status }) => status === "rejected");
        return failed
          ? Promise.reject((failed as PromiseRejectedResult).reason)
          : Promise.resolve();
      });
      this.check();
      let offset = 0;
      staging.forEach((buffer, i) => {
        result.set(new Uint8Array(buffer.getMappedRange(), 0, windows[i]!.size), offset);
        offset += windows[i]!.size;
        buffer.unmap();
      });
    } catch (error) {
      this.check();
      throw error;
    } finally {
      for (const buffer of staging) this.destroyBuffer(buffer);
    }
    return result;
  }

  /** What a device has promised is rejected once it is lost, and browsers may say so a little later. */
  async #unlessLost<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const waited = new Promise((resolve) => timer = setTimeout(resolve, LOSS_MS));
      await Promise.race([this.lost, waited]);
      clearTimeout(timer);
      this.check();
      throw error;
    }
  }

  /** Asks the queue again and again during a wait: Firefox else looks for its end every 100 ms. */
  #nudged<T>(wait: Promise<T>): Promise<T> {
    if (!WAITS_NEED_NUDGE) return wait;
    const timer = setInterval(() => this.gpuDevice.queue.submit([]), 1);
    return wait.finally(() => clearInterval(timer));
  }

  /** Closes the device; all its buffers are gone. */
  destroy(): void {
    this.gpuDevice.destroy();
    this.#pipelines.clear();
  }

  /** Calls {@linkcode Device.destroy}. */
  [Symbol.dispose](): void {
    this.destroy();
  }
}

const STORAGE_USAGE = 0x80 | 0x08 | 0x04; // STORAGE | COPY_DST | COPY_SRC
const STAGING_USAGE = 0x01 | 0x08; // MAP_READ | COPY_DST
const MAP_READ = 0x01;
const COMPUTE = 0x4; // GPUShaderStage.COMPUTE

function typedError(error: GPUError, requestedBytes: number): Error {
  return error.constructor.name === "GPUOutOfMemoryError"
    ? new OutOfMemoryError(
      `Cannot allocate ${
        requestedBytes > 0 ? `${requestedBytes} bytes of ` : ""
      }device memory: the driver has not enough left. Close other programs that use the GPU, or ask for less`,
      requestedBytes,
      0,
    )
    : new GpuValidationError(`Cannot run on the GPU: ${error.message}`);
}
