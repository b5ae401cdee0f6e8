/** Sizes of a tensor, outermost dimension first; the memory layout is always row-major and dense. */
export type Shape = readonly number[];

/** Number of elements. */
export function elementCount(shape: Shape): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Row-major strides in elements. */
export function stridesOf(shape: Shape): number[] {
  const strides = new Array<number>(shape.length);
  let stride = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = stride;
    stride *= shape[axis]!;
  }
  return strides;
}

/** `[2, 16, 8]`, as error messages print it. */
export function formatShape(shape: Shape): string {
  return `[${shape.join(", ")}]`;
}

/** True when both shapes have the same sizes. */
export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((size, axis) => size === b[axis]);
}

/** NumPy broadcasting of several shapes. Throws `RangeError` when two sizes differ and neither is 1. */
export function broadcastShapes(shapes: readonly Shape[]): number[] {
  const rank = Math.max(0, ...shapes.map((shape) => shape.length));
  const result = new Array<number>(rank).fill(1);
  for (const shape of shapes) {
    shape.forEach((size, i) => {
      const axis = rank - shape.length + i;
      const current = result[axis]!;
      if (current === 1) result[axis] = size;
      else if (size !== 1 && size !== current) {
        throw new RangeError(
          `Cannot broadcast ${
            shapes.map(formatShape).join(" with ")
          }: sizes ${current} and ${size} differ`,
        );
      }
    });
  }
  return result;
}

/** Resolves a negative axis and checks the range. */
export function resolveAxis(axis: number, rank: number): number {
  const resolved = axis < 0 ? axis + rank : axis;
  if (!Number.isInteger(resolved) || resolved < 0 || resolved >= rank) {
    throw new RangeError(`Cannot use axis ${axis}: the tensor has ${rank} dimensions`);
  }
  return resolved;
}

/** Smallest multiple of `step` that is at least `value`. */
export function roundUp(value: number, step: number): number {
  return Math.ceil(value / step) * step;
}
