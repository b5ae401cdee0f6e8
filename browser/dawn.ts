/** A tab has the browser's WebGPU alone; stands in for `runtime/device/backends/dawn.ts`. */
import { NoAdapterError } from "../runtime/errors.ts";

export function dawnGpu(): GPU {
  throw new NoAdapterError("Cannot use Dawn: a browser tab has the browser's own WebGPU");
}
