/** Other colours to sRGB: IEC 61966-2-1 (sRGB), ITU-T H.273 (spaces by number), ICC.1:2022, annex E (Bradford adaptation). */
import { channelsOf, type PixelImage } from "../image.ts";

/** Linear light from 0 to 1 of each of the 256 sample values. */
export type Curve = Float64Array;

export interface ColorSpace {
  /** Of red, green and blue. */
  readonly curves: readonly [Curve, Curve, Curve];
  /** Linear RGB to XYZ under D50, row by row. */
  readonly toXyz: readonly number[];
}

/** x and y of red, green, blue and white. */
export type Chromaticities = readonly [
  ...[rx: number, ry: number, gx: number, gy: number],
  ...[bx: number, by: number, wx: number, wy: number],
];

/** A function of a sample or of light, both from 0 to 1. */
type Transfer = (value: number) => number;

const D65 = [0.3127, 0.329] as const;

/** Primaries by their numbers in H.273, and by FFmpeg's names. */
const PRIMARIES: Readonly<Record<string, Chromaticities>> = {
  ...named(["1", "bt709"], [0.64, 0.33, 0.3, 0.6, 0.15, 0.06, ...D65]),
  ...named(["4", "bt470m"], [0.67, 0.33, 0.21, 0.71, 0.14, 0.08, 0.31, 0.316]),
  ...named(["5", "bt470bg"], [0.64, 0.33, 0.29, 0.6, 0.15, 0.06, ...D65]),
  ...named(["6", "smpte170m"], [0.63, 0.34, 0.31, 0.595, 0.155, 0.07, ...D65]),
  ...named(["7", "smpte240m"], [0.63, 0.34, 0.31, 0.595, 0.155, 0.07, ...D65]),
  ...named(["8", "film"], [0.681, 0.319, 0.243, 0.692, 0.145, 0.049, 0.31, 0.316]),
  ...named(["9", "bt2020"], [0.708, 0.292, 0.17, 0.797, 0.131, 0.046, ...D65]),
  ...named(["11", "smpte431"], [0.68, 0.32, 0.265, 0.69, 0.15, 0.06, 0.314, 0.351]),
  ...named(["12", "smpte432"], [0.68, 0.32, 0.265, 0.69, 0.15, 0.06, ...D65]),
  ...named(["22", "ebu3213", "jedec-p22"], [0.63, 0.34, 0.295, 0.605, 0.155, 0.077, ...D65]),
};

/** Transfer characteristics by their numbers in H.273, and by FFmpeg's names. */
const TRANSFERS: Readonly<Record<string, Transfer>> = {
  // Cameras' curves are shown as sRGB's is: so everybody shows BT.709.
  ...named(["1", "bt709", "6", "smpte170m", "14", "bt2020-10", "15", "bt2020-12"], fromSrgb),
  ...named(["13", "iec61966-2-1"], fromSrgb),
  ...named(["4", "bt470m", "gamma22"], (value) => value ** 2.2),
  ...named(["5", "bt470bg", "gamma28"], (value) => value ** 2.8),
  ...named(["8", "linear"], (value) => value),
};

function named<T>(names: readonly string[], value: T): Record<string, T> {
  return Object.fromEntries(names.map((name) => [name, value]));
}

/** Larger differences from sRGB than this, in steps of 255, are converted. */
const ROUNDING = 1;

export function fromSrgb(value: number): number {
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
}

function toSrgb(light: number): number {
  return light <= 0.0031308 ? light * 12.92 : 1.055 * light ** (1 / 2.4) - 0.055;
}

export function curveOf(transfer: Transfer): Curve {
  return Float64Array.from({ length: 256 }, (_, sample) => transfer(sample / 255));
}

/** A space from its primaries and the curve of its samples. */
export function rgbSpace(primaries: Chromaticities, transfer: Transfer): ColorSpace {
  const curve = curveOf(transfer);
  return { curves: [curve, curve, curve], toXyz: toXyzD50(primaries) };
}

/** Adobe RGB (1998), section 4.3. */
export function adobeRgb(): ColorSpace {
  return rgbSpace(
    [0.64, 0.33, 0.21, 0.71, 0.15, 0.06, 0.3127, 0.329],
    (value) => value ** (563 / 256),
  );
}

/** The space of H.273's numbers or FFmpeg's names; BT.709's primaries and sRGB's curve where one is not specified. */
export function namedSpace(primaries: string, transfer: string): ColorSpace | undefined {
  const isOpen = (name: string) => /^(?:|0|2|unknown|reserved|unspecified)$/.test(name);
  const known = PRIMARIES[isOpen(primaries) ? "bt709" : primaries];
  const curve = TRANSFERS[isOpen(transfer) ? "bt709" : transfer];
  return known && curve && rgbSpace(known, curve);
}

/** The samples in sRGB; alpha stays. What sRGB cannot show is clipped. */
export function toSrgbPixels<T extends PixelImage>(image: T, space: ColorSpace): T {
  const convert = converterOf(space);
  if (convert === undefined) return image;
  const data = image.data.slice();
  convert(data, channelsOf(image));
  return { ...image, data };
}

/** Converts samples in place, `channels` apart; nothing where the space is sRGB but for rounding. */
export function converterOf(
  space: ColorSpace,
): ((data: Uint8Array, channels: 3 | 4) => void) | undefined {
  const matrix = multiply(invert(SRGB_TO_XYZ), space.toXyz);
  const [red, green, blue] = space.curves;
  const convert = (data: Uint8Array, channels: 3 | 4) => {
    for (let at = 0; at + 2 < data.length; at += channels) {
      const [r, g, b] = [red[data[at]!]!, green[data[at + 1]!]!, blue[data[at + 2]!]!];
      for (let row = 0; row < 3; row++) {
        const light = matrix[3 * row]! * r + matrix[3 * row + 1]! * g + matrix[3 * row + 2]! * b;
        data[at + row] = SAMPLES[Math.round(Math.min(1, Math.max(0, light)) * STEPS)]!;
      }
    }
  };
  return isSrgb(convert) ? undefined : convert;
}

/** Steps of light, fine enough that no sample is missed in the shadows. */
const STEPS = 2 ** 16 - 1;
const SAMPLES = Uint8Array.from(
  { length: STEPS + 1 },
  (_, step) => Math.round(255 * toSrgb(step / STEPS)),
);

/** Whether a conversion leaves a grid of colours, and all greys, within rounding. */
function isSrgb(convert: (data: Uint8Array, channels: 3) => void): boolean {
  const greys = Array.from({ length: 256 }, (_, value) => [value, value, value]);
  const levels = Array.from({ length: 16 }, (_, level) => level * 17);
  const grid = levels.flatMap((r) => levels.flatMap((g) => levels.map((b) => [r, g, b])));
  const before = Uint8Array.from([...greys, ...grid].flat());
  const after = before.slice();
  convert(after, 3);
  return before.every((value, i) => Math.abs(value - after[i]!) <= ROUNDING);
}

/** Linear RGB of these primaries to XYZ under D50. */
function toXyzD50([rx, ry, gx, gy, bx, by, wx, wy]: Chromaticities): number[] {
  const white = [wx / wy, 1, (1 - wx - wy) / wy];
  const columns = [[rx, ry], [gx, gy], [bx, by]].map(([x, y]) => [x! / y!, 1, (1 - x! - y!) / y!]);
  const primaries = [0, 1, 2].flatMap((row) => columns.map((column) => column[row]!));
  const scale = apply(invert(primaries), white);
  const toXyz = primaries.map((value, i) => value * scale[i % 3]!);
  const cone = apply(BRADFORD, white);
  const gains = apply(BRADFORD, D50).map((value, i) => value / cone[i]!);
  const adapted = BRADFORD.map((value, i) => value * gains[Math.floor(i / 3)]!);
  return multiply(multiply(invert(BRADFORD), adapted), toXyz);
}

const D50 = [0.9642, 1, 0.8249];
const BRADFORD = [0.8951, 0.2664, -0.1614, -0.7502, 1.7135, 0.0367, 0.0389, -0.0685, 1.0296];
const SRGB_TO_XYZ = toXyzD50(PRIMARIES["bt709"]!);

function apply(m: readonly number[], v: readonly number[]): number[] {
  return [0, 3, 6].map((row) => m[row]! * v[0]! + m[row + 1]! * v[1]! + m[row + 2]! * v[2]!);
}

function multiply(a: readonly number[], b: readonly number[]): number[] {
  const columns = [0, 1, 2].map((column) => apply(a, [b[column]!, b[column + 3]!, b[column + 6]!]));
  return [0, 1, 2].flatMap((row) => columns.map((column) => column[row]!));
}

function invert([a, b, c, d, e, f, g, h, i]: readonly number[]): number[] {
  const minors = [
    ...[e! * i! - f! * h!, c! * h! - b! * i!, b! * f! - c! * e!],
    ...[f! * g! - d! * i!, a! * i! - c! * g!, c! * d! - a! * f!],
    ...[d! * h! - e! * g!, b! * g! - a! * h!, a! * e! - b! * d!],
  ];
  const determinant = a! * minors[0]! + b! * minors[3]! + c! * minors[6]!;
  return minors.map((value) => value / determinant);
}
