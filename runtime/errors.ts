/** The GPU is gone: driver reset, unplugged, or destroyed. Nothing on it can be used again; open a new device. */
export class DeviceLostError extends Error {
  /** Survives the way between threads. */
  override readonly name = "DeviceLostError";
}

/** An allocation would pass the byte budget, or the driver had no memory left. */
export class OutOfMemoryError extends RangeError {
  /** Survives the way between threads. */
  override readonly name = "OutOfMemoryError";
  /** Bytes that were asked for. */
  readonly requestedBytes: number;
  /** Bytes that the budget still had. */
  readonly availableBytes: number;

  /** Bytes as in the fields of the same names. */
  constructor(message: string, requestedBytes: number, availableBytes: number) {
    super(message);
    this.requestedBytes = requestedBytes;
    this.availableBytes = availableBytes;
  }
}

/** A kernel's tensors are larger than the adapter can bind, or than kernels can count. */
export class TensorLimitError extends RangeError {
  /** What is too much, in words, such as `a kernel needs 35 storage bindings, the adapter has 32`. */
  readonly excess: string;

  /** The message names the kernel and its tensors as well. */
  constructor(message: string, excess: string) {
    super(message);
    this.excess = excess;
  }
}

/** WebGPU refused a shader, pipeline, bind group or submit: a defect of ours, not of the input. */
export class GpuValidationError extends Error {
  /** Survives the way between threads. */
  override readonly name = "GpuValidationError";
}

/** This machine offers no usable WebGPU adapter. */
export class NoAdapterError extends Error {
  /** Survives the way between threads. */
  override readonly name = "NoAdapterError";

  /** Says what to install when no other words are given. */
  constructor(
    message =
      "Cannot find a GPU: WebGPU offers no adapter on this machine. Install your GPU's driver (on Linux " +
      "with Vulkan), or the software driver (package mesa-vulkan-drivers on Debian and Ubuntu)",
  ) {
    super(message);
  }
}
