/** Edges by Canny 1986, with the numbers of OpenCV's `Canny` for an aperture of 3 and the sum of magnitudes as length. */

/** Tangents of 22.5 and 67.5 degrees in units of 2⁻¹⁵. */
const SHIFT = 15;
const TANGENT = Math.round(Math.tan(Math.PI / 8) * 2 ** SHIFT);

/** Shares of red, green and blue in grey, in units of 2⁻¹⁵. */
const GREY = [9798, 19235, 3735] as const;

/** Where an edge may be, where none is, and where one is. */
const [MAYBE, NONE, EDGE] = [0, 1, 2];

interface CannyThresholds {
  /** Shorter gradients are no edges. */
  readonly low: number;
  /** Longer ones are edges; those between are where they touch one. */
  readonly high: number;
}

export function cannyEdges(
  data: Uint8Array,
  width: number,
  height: number,
  thresholds: CannyThresholds,
): Uint8Array<ArrayBuffer> {
  const edges = findEdges(toGrey(data), width, height, thresholds);
  return Uint8Array.from({ length: data.length }, (_, i) => edges[Math.floor(i / 3)]!);
}

/** Grey as OpenCV has it. */
function toGrey(data: Uint8Array): Uint8Array {
  const [red, green, blue] = GREY;
  return Uint8Array.from(
    { length: data.length / 3 },
    (_, i) =>
      (data[3 * i]! * red + data[3 * i + 1]! * green + data[3 * i + 2]! * blue +
        2 ** (SHIFT - 1)) >> SHIFT,
  );
}

/** The edges of a grey picture: 255 on edges, 0 elsewhere. */
function findEdges(
  grey: Uint8Array,
  width: number,
  height: number,
  thresholds: CannyThresholds,
): Uint8Array {
  const [low, high] = [thresholds.low, thresholds.high].sort((a, b) => a - b).map(Math.floor) as [
    number,
    number,
  ];
  const { dx, dy } = gradients(grey, width, height);
  // With a border of one pixel: gradients outside have no length, and there are no edges.
  const stride = width + 2;
  const lengths = new Int32Array(stride * (height + 2));
  const kinds = new Uint8Array(lengths.length).fill(NONE!);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const i = y * width + x;
      lengths[(y + 1) * stride + x + 1] = Math.abs(dx[i]!) + Math.abs(dy[i]!);
    }
  }
  const open: number[] = [];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = (y + 1) * stride + x + 1;
      const length = lengths[at]!;
      if (length <= low || !isPeak(lengths, at, stride, dx[y * width + x]!, dy[y * width + x]!)) {
        continue;
      }
      kinds[at] = length > high ? EDGE! : MAYBE!;
      if (length > high) open.push(at);
    }
  }
  const around = [-stride - 1, -stride, -stride + 1, -1, 1, stride - 1, stride, stride + 1];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    for (const step of around) {
      if (kinds[at + step] !== MAYBE) continue;
      kinds[at + step] = EDGE!;
      open.push(at + step);
    }
  }
  return Uint8Array.from(
    { length: width * height },
    (_, i) => kinds[(Math.floor(i / width) + 1) * stride + i % width + 1] === EDGE ? 255 : 0,
  );
}

/** Whether no neighbour in the gradient's direction has a longer one. */
function isPeak(lengths: Int32Array, at: number, stride: number, dx: number, dy: number): boolean {
  const length = lengths[at]!;
  const across = Math.abs(dx) * TANGENT;
  const down = Math.abs(dy) * 2 ** SHIFT;
  if (down < across) return length > lengths[at - 1]! && length >= lengths[at + 1]!;
  if (down > across + Math.abs(dx) * 2 ** (SHIFT + 1)) {
    return length > lengths[at - stride]! && length >= lengths[at + stride]!;
  }
  const side = (dx ^ dy) < 0 ? -1 : 1;
  return length > lengths[at - stride - side]! && length > lengths[at + stride + side]!;
}

/** Sobel's derivatives, the outermost pixels repeated. */
function gradients(
  grey: Uint8Array,
  width: number,
  height: number,
): { readonly dx: Int16Array; readonly dy: Int16Array } {
  const dx = new Int16Array(grey.length);
  const dy = new Int16Array(grey.length);
  for (let y = 0; y < height; y++) {
    const rows = [Math.max(0, y - 1), y, Math.min(height - 1, y + 1)].map((row) => row * width);
    for (let x = 0; x < width; x++) {
      const [left, right] = [Math.max(0, x - 1), Math.min(width - 1, x + 1)];
      const at = (row: number, column: number) => grey[rows[row]! + column]!;
      const i = y * width + x;
      dx[i] = at(0, right) + 2 * at(1, right) + at(2, right) -
        at(0, left) - 2 * at(1, left) - at(2, left);
      dy[i] = at(2, left) + 2 * at(2, x) + at(2, right) - at(0, left) - 2 * at(0, x) - at(0, right);
    }
  }
  return { dx, dy };
}
