/** How the bytes of a tensor lie in buffers and bindings of limited size. */
import { bytesPerElement, type StorageFormat } from "./dtype.ts";
import { isWeightFormat, repackedBytes } from "./quantization/formats.ts";
import { elementCount, roundUp, type Shape } from "./shape.ts";
import type { TargetLimits } from "./target.ts";

/** One range of a buffer that fits into a storage binding. */
export interface BufferWindow {
  /** The buffer it is cut from. */
  readonly buffer: GPUBuffer;
  /** Offset in bytes, a multiple of 256. */
  readonly offset: number;
  /** Size in bytes. */
  readonly size: number;
}

/** Bytes that a tensor takes on the device: its elements, padded so that it can be read as `vec4` words. */
export function allocatedBytes(shape: Shape, dtype: StorageFormat): number {
  const bytes = isWeightFormat(dtype)
    ? repackedBytes(shape, dtype)
    : elementCount(shape) * bytesPerElement(dtype);
  return Math.max(16, roundUp(bytes, 16));
}

/** Cuts `bytes` into pieces that can be bound, each a multiple of 256 bytes but the last. */
export function cutIntoPieces(
  bytes: number,
  limits: Pick<TargetLimits, "maxBindingBytes" | "maxBufferBytes">,
): { buffer: number; offset: number; size: number }[] {
  const pieceBytes = Math.min(
    limits.maxBindingBytes,
    Math.floor(limits.maxBufferBytes / 256) * 256,
  );
  const perBuffer = Math.floor(limits.maxBufferBytes / pieceBytes);
  const pieces: { buffer: number; offset: number; size: number }[] = [];
  for (let start = 0, i = 0; start < bytes; start += pieceBytes, i++) {
    pieces.push({
      buffer: Math.floor(i / perBuffer),
      offset: (i % perBuffer) * pieceBytes,
      size: Math.min(pieceBytes, bytes - start),
    });
  }
  return pieces;
}
