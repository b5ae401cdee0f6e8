import { type NdArray, ndarray } from "../ndarray.ts";

/** Images at positions between their pixels, in double precision; the edge goes on. */
function sampled(
  x: NdArray,
  [rows, columns]: readonly [number, number],
  position: (image: number, row: number, column: number) => readonly [down: number, right: number],
): NdArray {
  const [batch, height, width, channels] = x.shape as [number, number, number, number];
  const y = ndarray([batch, rows, columns, channels]);
  const clamp = (value: number, size: number) => Math.min(Math.max(value, 0), size - 1);
  let at = 0;
  for (let image = 0; image < batch; image++) {
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const [wantedDown, wantedRight] = position(image, row, column);
        const [down, right] = [clamp(wantedDown, height), clamp(wantedRight, width)];
        const [top, left] = [Math.floor(down), Math.floor(right)];
        for (let c = 0; c < channels; c++) {
          const pixel = (r: number, s: number) =>
            x.data[
              ((image * height + clamp(r, height)) * width + clamp(s, width)) * channels + c
            ]!;
          const mixed = (r: number) =>
            pixel(r, left) * (1 - (right - left)) + pixel(r, left + 1) * (right - left);
          y.data[at++] = mixed(top) * (1 - (down - top)) + mixed(top + 1) * (down - top);
        }
      }
    }
  }
  return y;
}

/** Images at another size; pixels are areas. */
export function resizeReference(x: NdArray, height: number, width: number): NdArray {
  const [, ownHeight, ownWidth] = x.shape as [number, number, number, number];
  return sampled(x, [height, width], (_, row, column) => [
    (row + 0.5) * ownHeight / height - 0.5,
    (column + 0.5) * ownWidth / width - 0.5,
  ]);
}

export function warpReference(x: NdArray, flow: NdArray): NdArray {
  const [, height, width] = x.shape as [number, number, number, number];
  return sampled(x, [height, width], (image, row, column) => {
    const at = 2 * ((image * height + row) * width + column);
    return [row + flow.data[at + 1]!, column + flow.data[at]!];
  });
}
