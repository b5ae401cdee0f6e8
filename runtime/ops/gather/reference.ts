import { type NdArray, ndarray } from "../ndarray.ts";

export function gatherReference(table: NdArray, indices: NdArray): NdArray {
  const channels = table.shape[1]!;
  const result = ndarray([...indices.shape, channels]);
  indices.data.forEach((row, i) => {
    result.data.set(table.data.subarray(row * channels, (row + 1) * channels), i * channels);
  });
  return result;
}
