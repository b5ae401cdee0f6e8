/** ICC profiles by curves and a matrix: ICC.1:2022, sections 7.2, 7.3 (tags), 10.6, 10.18 (curves) and 10.31 (XYZ). */
import { ImageError } from "../image.ts";
import { type ColorSpace, type Curve, curveOf } from "./color_space.ts";

const HEADER_BYTES = 128;
const MOST_TAGS = 200;
/** Under which all profiles give their colours. */
const D50 = [0.9642, 1, 0.8249];

export function readIccProfile(bytes: Uint8Array): ColorSpace {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  try {
    return read(view);
  } catch (cause) {
    if (cause instanceof ImageError) throw cause;
    throw refusal("is damaged", cause);
  }
}

function refusal(what: string, cause?: unknown): ImageError {
  return new ImageError(
    `Cannot use image: its colour profile ${what}; save it as sRGB`,
    { cause },
  );
}

function read(view: DataView): ColorSpace {
  if (textAt(view, 36) !== "acsp") throw new RangeError("no signature");
  const space = textAt(view, 16).trim();
  const tags = new Map<string, number>();
  const count = Math.min(view.getUint32(HEADER_BYTES), MOST_TAGS);
  for (let i = 0; i < count; i++) {
    const at = HEADER_BYTES + 4 + 12 * i;
    tags.set(textAt(view, at), view.getUint32(at + 4));
  }
  const curve = (tag: string) => {
    const at = tags.get(tag);
    return at === undefined ? undefined : readCurve(view, at);
  };
  if (space === "GRAY") {
    const grey = curve("kTRC");
    if (grey === undefined) throw refusal("has no curve of its greys, and tables are not read");
    // A grey of light 1 is the white of D50.
    return {
      curves: [grey, grey, grey],
      toXyz: D50.flatMap((white) => [white / 3, white / 3, white / 3]),
    };
  }
  if (space !== "RGB") {
    throw refusal(
      `is of ${
        /^\w+$/.test(space) ? space : "unknown"
      } colours, and those of RGB and grey are read`,
    );
  }
  const curves = ["rTRC", "gTRC", "bTRC"].map(curve);
  const columns = ["rXYZ", "gXYZ", "bXYZ"].map((tag) => {
    const at = tags.get(tag);
    return at === undefined ? undefined : [0, 4, 8].map((offset) => fixed(view, at + 8 + offset));
  });
  if ([...curves, ...columns].some((part) => part === undefined)) {
    throw refusal("has tables in place of curves and a matrix, and those are not read");
  }
  const [red, green, blue] = curves as [Curve, Curve, Curve];
  return {
    curves: [red, green, blue],
    toXyz: [0, 1, 2].flatMap((row) => columns.map((column) => column![row]!)),
  };
}

function readCurve(view: DataView, at: number): Curve {
  const type = textAt(view, at);
  if (type === "para") return parametricCurve(view, at);
  if (type !== "curv") throw new RangeError(`curve type ${type}`);
  const count = view.getUint32(at + 8);
  if (count === 0) return curveOf((value) => value);
  if (count === 1) {
    const gamma = view.getUint16(at + 12) / 256;
    return curveOf((value) => value ** gamma);
  }
  const entry = (index: number) => view.getUint16(at + 12 + 2 * index) / 65_535;
  return curveOf((value) => {
    const place = value * (count - 1);
    const low = Math.min(Math.floor(place), count - 2);
    return entry(low) + (place - low) * (entry(low + 1) - entry(low));
  });
}

const PARAMETERS = [1, 3, 4, 5, 7];

function parametricCurve(view: DataView, at: number): Curve {
  const type = view.getUint16(at + 8);
  const count = PARAMETERS[type];
  if (count === undefined) throw new RangeError(`function type ${type}`);
  const [g, a = 1, b = 0, c = 0, d = 0, e = 0, f = 0] = Array.from(
    { length: count },
    (_, i) => fixed(view, at + 12 + 4 * i),
  ) as [number, ...number[]];
  // The types 1 and 2 begin where the power does, and c is what they add everywhere.
  const isOld = type === 1 || type === 2;
  const start = isOld ? -b / a : d;
  const [slope, above, below] = isOld ? [0, c, c] : [c, e, f];
  return curveOf((value) =>
    Math.min(1, Math.max(0, value >= start ? (a * value + b) ** g + above : slope * value + below))
  );
}

function fixed(view: DataView, at: number): number {
  return view.getInt32(at) / 65_536;
}

function textAt(view: DataView, at: number): string {
  return String.fromCharCode(...[0, 1, 2, 3].map((i) => view.getUint8(at + i)));
}
