import { gather, type Tensor } from "../../runtime/mod.ts";
import { sharedConstant } from "./shared_constant.ts";

/** Where in a frame the places beyond its edges are taken from: the edge itself, or its mirror image. */
const BEYOND = {
  repeat: (place: number, size: number) => Math.min(Math.max(place, 0), size - 1),
  reflect: (place: number, size: number) =>
    place < 0 ? -place : place >= size ? 2 * (size - 1) - place : place,
};

/** [1, frames, height, width, channels] with a pixel more on each side, and more frames, in which the first and the last stand still. */
export function withEdges(
  x: Tensor,
  { before, after, beyond, name }: {
    readonly before: number;
    readonly after: number;
    readonly beyond: keyof typeof BEYOND;
    readonly name: string;
  },
): Tensor {
  const [, frames, height, width, channels] = x.shape as [number, number, number, number, number];
  const shape = [before + frames + after, height + 2, width + 2] as const;
  const key = `edges by ${beyond} ${before}+${frames}+${after}x${height}x${width}`;
  const places = sharedConstant(x.graph, key, {
    shape,
    dtype: "u32",
    values: () => {
      const indices = new Uint32Array(shape[0] * shape[1] * shape[2]);
      let to = 0;
      for (let f = 0; f < shape[0]; f++) {
        const frame = BEYOND.repeat(f - before, frames);
        for (let i = 0; i < shape[1]; i++) {
          const row = (frame * height + BEYOND[beyond](i - 1, height)) * width;
          for (let j = 0; j < shape[2]; j++) indices[to++] = row + BEYOND[beyond](j - 1, width);
        }
      }
      return indices;
    },
  });
  const y = gather(x.reshape(-1, channels), places, { name });
  return y.reshape(1, ...y.shape);
}
