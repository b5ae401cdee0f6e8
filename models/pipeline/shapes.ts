/** Which of the sizes that a model was made for a result has in the shape of an image. */
export interface Shape {
  readonly width: number;
  readonly height: number;
}

/**
 * The one that is nearest in shape, of those that are not longer than it; all are where it is longer than any.
 * Source: diffusers `get_closest_ratio` of HunyuanVideo 1.5.
 */
export function nearestShape({ width, height }: Shape, sizes: readonly Shape[]): Shape {
  const shape = height / width;
  const ratio = (size: Shape) => Math.round(size.height / size.width * 1e5) / 1e5;
  const fitting = sizes.filter((size) => shape >= 1 ? ratio(size) <= shape : ratio(size) >= shape);
  const distance = (size: Shape) => Math.abs(ratio(size) - shape);
  const all = fitting.length > 0 ? fitting : sizes;
  return all.reduce((best, size) => (distance(size) < distance(best) ? size : best));
}
