import { type Device, OutOfMemoryError, type Weights } from "../../runtime/mod.ts";

/**
 * Uploads the declared weights of all components of a model.
 *
 * @param parts in the order in which they are used
 * @param onProgress called with the finished share
 * @throws {OutOfMemoryError} before anything is uploaded, when they do not fit
 */
export async function uploadWeights(
  parts: readonly Weights[],
  device: Device,
  onProgress?: (fraction: number) => void,
): Promise<void> {
  const total = parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
  if (total > device.availableBytes) {
    throw new OutOfMemoryError(
      `Cannot load the model: its weights take ${megabytes(total)} on the device, ${
        megabytes(device.availableBytes, Math.floor)
      } may be taken. Allow more memory, or choose a smaller model`,
      total,
      device.availableBytes,
    );
  }
  let before = 0;
  for (const weights of parts) {
    await weights.upload(device, (done) => onProgress?.((before + done) / total));
    before += weights.byteLength;
  }
}

/** Bytes in words. */
export function megabytes(bytes: number, round: (value: number) => number = Math.ceil): string {
  return `${round(bytes / 1e6)} MB`;
}
