/** Colours that image files name: Portable Network Graphics, third edition, sections 11.3.2 and 13.15 (which chunk counts). */
import { inflateSync } from "../../platform/mod.ts";
import { ImageError } from "../image.ts";
import { pngChunks } from "../png.ts";
import {
  type Chromaticities,
  type ColorSpace,
  fromSrgb,
  namedSpace,
  rgbSpace,
} from "./color_space.ts";
import { readIccProfile } from "./icc.ts";

/** Longest profile that is unpacked; those of printers have some megabytes. */
const MAX_PROFILE_BYTES = 8 * 2 ** 20;

/** Gamma of sRGB as PNG writes it, in 100,000ths, and how far from it others write it. */
const SRGB_GAMMA = 45_455;
const GAMMA_ROUNDING = 500;

/** Primaries and white of sRGB as PNG writes them, in 100,000ths, in its order. */
const SRGB_CHROMATICITIES = [31_270, 32_900, 64_000, 33_000, 30_000, 60_000, 15_000, 6_000];

/** The colours of a PNG file: the first of cICP, iCCP, sRGB, and gAMA with cHRM counts. */
export function pngColors(bytes: Uint8Array): ColorSpace | undefined {
  const found = new Map<string, Uint8Array>();
  for (const { type, data, intact } of pngChunks(bytes)) {
    if (intact && /^(?:cICP|iCCP|sRGB|gAMA|cHRM)$/.test(type) && !found.has(type)) {
      found.set(type, data);
    }
  }
  const coding = found.get("cICP");
  if (coding && coding.length >= 4) {
    const [primaries, transfer, matrix, isFull] = coding;
    const space = namedSpace(String(primaries), String(transfer));
    if (space !== undefined && matrix === 0 && isFull === 1) return space;
    throw new ImageError(
      `Cannot use image: its colours (cICP) are those of primaries ${primaries}, transfer characteristics ${transfer} ` +
        `and matrix ${matrix} in ${isFull ? "full" : "narrow"} range, as of HDR; save it as sRGB`,
    );
  }
  const profile = found.get("iCCP");
  if (profile) return readIccProfile(unpackProfile(profile));
  return found.has("sRGB") ? undefined : gammaColors(found.get("gAMA"), found.get("cHRM"));
}

function unpackProfile(data: Uint8Array): Uint8Array {
  try {
    // A name, a zero, and the compression method.
    const options = { maxOutputLength: MAX_PROFILE_BYTES };
    return inflateSync(data.subarray(data.indexOf(0) + 2), options);
  } catch (cause) {
    throw new ImageError("Cannot use image: its colour profile is damaged; save it as sRGB", {
      cause,
    });
  }
}

function gammaColors(
  gamma: Uint8Array | undefined,
  chromaticities: Uint8Array | undefined,
): ColorSpace | undefined {
  const numbers = (data: Uint8Array | undefined, count: number) => {
    if (data?.length !== 4 * count) return undefined;
    const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    return Array.from({ length: count }, (_, i) => view.getUint32(4 * i));
  };
  const [exponent = SRGB_GAMMA] = numbers(gamma, 1) ?? [];
  const [wx, wy, ...primaries] = numbers(chromaticities, 8) ?? SRGB_CHROMATICITIES;
  const isSrgb = Math.abs(exponent - SRGB_GAMMA) <= GAMMA_ROUNDING;
  if (exponent === 0 || primaries.concat(wy!).some((value, i) => i % 2 === 1 && value === 0)) {
    return undefined;
  }
  const scaled = [...primaries, wx!, wy!].map((value) => value / 100_000);
  return rgbSpace(
    scaled as unknown as Chromaticities,
    isSrgb ? fromSrgb : (value) => value ** (100_000 / exponent),
  );
}
